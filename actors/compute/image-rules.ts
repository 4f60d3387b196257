/** Which image a user may name at creation: `{registry_host}/<repo>:<tag>` (interface section 4.2), as a pure function. */

const COMPONENT = '[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*';
const REPOSITORY = new RegExp(`^${COMPONENT}(?:/${COMPONENT})+$`);
const TAG = /^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$/;

/** The repository of a reference to the registry; undefined when it is none. */
export function repositoryOf(image: string, registryHost: string): string | undefined {
  const prefix = `${registryHost}/`;
  const colon = image.lastIndexOf(':');
  if (!image.startsWith(prefix) || colon <= prefix.length) return undefined;
  const repository = image.slice(prefix.length, colon);
  return REPOSITORY.test(repository) && repository.length <= 255 ? repository : undefined;
}

/**
 * What is wrong with the reference, in a sentence; undefined when it is fine. Grammar: OCI distribution specification. `mayPull`: the
 * registry lets this user pull the repository, whosever it is.
 */
export function imageProblem(
  image: string,
  registryHost: string | undefined,
  username: string,
  mayPull = false,
): string | undefined {
  if (registryHost === undefined) return 'this platform has no image registry: leave the image out';
  const prefix = `${registryHost}/`;
  const colon = image.lastIndexOf(':');
  const repository = image.slice(prefix.length, colon);
  if (
    !image.startsWith(prefix) ||
    colon <= prefix.length ||
    !TAG.test(image.slice(colon + 1)) ||
    !REPOSITORY.test(repository)
  ) {
    return `must be ${registryHost}/<repo>:<tag>`;
  }
  if (repository.length > 255) return 'has a repository name of more than 255 characters';
  const owner = repository.slice(0, repository.indexOf('/'));
  if (owner !== username && owner !== 'library' && !mayPull)
    return `must be in your own repositories (${registryHost}/${username}/...), in library, or public`;
  return undefined;
}
