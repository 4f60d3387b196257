/**
 * Which image a user may name at creation: `{registry_host}/<repo>:<tag>`, as a pure function.
 */
import { MAX_REPOSITORY, parseImage } from '../../proto/repositories.ts';

/** What is wrong with the reference, if anything. `mayPull`: the registry lets this user pull it, whosever it is. */
export function imageProblem(
  image: string,
  registryHost: string | undefined,
  username: string,
  mayPull = false,
): string | undefined {
  if (registryHost === undefined) return 'this platform has no image registry: leave the image out';
  const { repository } = parseImage(image, registryHost) ?? {};
  const [owner, ...rest] = repository?.split('/') ?? [];
  // A repository has an owner, or is in library.
  if (repository === undefined || rest.length === 0) return `must be ${registryHost}/<repo>:<tag>`;
  if (repository.length > MAX_REPOSITORY) return `has a repository name of more than ${MAX_REPOSITORY} characters`;
  if (owner !== username && owner !== 'library' && !mayPull)
    return `must be in your own repositories (${registryHost}/${username}/...), in library, or public`;
  return undefined;
}
