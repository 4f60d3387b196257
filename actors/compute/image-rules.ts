/** Which image a user may name at creation: `{registry_host}/<repo>:<tag>` (interface section 4.2), as a pure function. */

const COMPONENT = '[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*';
const REPOSITORY = new RegExp(`^${COMPONENT}(?:/${COMPONENT})+$`);
const TAG = /^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$/;

/** What is wrong with the reference, in a sentence; undefined when it is fine. Grammar: OCI distribution specification. */
export function imageProblem(image: string, registryHost: string | undefined, username: string): string | undefined {
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
  // Until the registry's visibility table is asked, only what is certainly the caller's or everybody's.
  if (owner !== username && owner !== 'library')
    return `must be in your own repositories (${registryHost}/${username}/...) or in library`;
  return undefined;
}
