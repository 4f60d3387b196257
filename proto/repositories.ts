/** Names of image repositories, and references to images in the registry (OCI distribution specification). */

const COMPONENT = '[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*';
const REPOSITORY = new RegExp(`^${COMPONENT}(?:/${COMPONENT})*$`);
const TAG = /^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$/;

/** Public to pull; pushed by the administrator. Nobody's own, even if a user has that name. */
export const LIBRARY = 'library';

/** Most characters of a repository's name. */
export const MAX_REPOSITORY = 255;

/** Whether this is a repository's name: lower case, no host, no port, at most 255 characters. */
export function isRepository(name: string): boolean {
  return name.length <= MAX_REPOSITORY && REPOSITORY.test(name);
}

/**
 * The repository of an image in the registry that is named by its tag, by its digest, or by both; undefined when it is
 * none. Users name images by tags alone (`parseImage`).
 */
export function repositoryIn(image: string, registryHost: string): string | undefined {
  const [name = '', digest] = image.split('@');
  const prefix = `${registryHost}/`;
  if (digest === undefined || name.indexOf(':', prefix.length) !== -1)
    return parseImage(name, registryHost)?.repository;
  const repository = name.slice(prefix.length);
  return name.startsWith(prefix) && REPOSITORY.test(repository) ? repository : undefined;
}

/** What `{registry_host}/<repo>:<tag>` names; undefined when it is not of that form. */
export function parseImage(image: string, registryHost: string): { repository: string; tag: string } | undefined {
  const prefix = `${registryHost}/`;
  const colon = image.lastIndexOf(':');
  if (!image.startsWith(prefix) || colon <= prefix.length) return undefined;
  const repository = image.slice(prefix.length, colon);
  const tag = image.slice(colon + 1);
  return REPOSITORY.test(repository) && TAG.test(tag) ? { repository, tag } : undefined;
}
