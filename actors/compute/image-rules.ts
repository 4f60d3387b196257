/**
 * Which image a user may name at creation: `{registry_host}/<repo>:<tag>`, or one that the platform builds. And what
 * the image of a row means. Pure functions.
 */
import { BASE_NAME, builtInName, builtInReference } from '../../proto/built-in-images.ts';
import type { BuiltInImage } from '../../proto/ports/engine.ts';
import { MAX_REPOSITORY, parseImage } from '../../proto/repositories.ts';

/** The images that need no registry. */
interface OwnImages {
  /** Of containers that name none. */
  readonly defaultImage: string;
  readonly engine: { readonly baseImage: string; readonly builtIns: readonly BuiltInImage[] };
}

/**
 * The image that a row gets: null for the default one, whichever that is at the time, and a name that does not change
 * for another one of the platform. Undefined when what the user names is neither.
 */
export function ownImage(given: string | undefined, { defaultImage, engine }: OwnImages): string | null | undefined {
  if (given === undefined || given === defaultImage) return null;
  const name = builtInName(given) ?? pulledBuiltIn(given, engine)?.name ?? given;
  if (name === BASE_NAME && defaultImage === engine.baseImage) return null;
  return engine.builtIns.some((image) => image.name === name) ? builtInReference(name) : undefined;
}

/** The one of the platform's images that a reference of a registry stands for, in whatever version. */
export function pulledBuiltIn(reference: string, { builtIns }: Pick<OwnImages['engine'], 'builtIns'>) {
  const [, repository] = /^(.*?)(?::[^:/]*)?$/.exec(withoutDigest(reference)) ?? [];
  return builtIns.find((image) => image.repository !== undefined && image.repository === repository);
}

/** The name of a row's image now, as its user knows it. */
export function shownImage({ image }: { readonly image: string | null }, images: OwnImages): string {
  return imageOf({ image: image && withoutDigest(image) }, images);
}

/** `name:tag` of `name:tag@sha256:...`. */
export function withoutDigest(image: string): string {
  return image.split('@', 1)[0] ?? image;
}

/** The digest that a row's image is held to; undefined: it follows its tag. */
export function digestIn(image: string | null): string | undefined {
  return image?.split('@', 2)[1];
}

/** The reference of a row's image now. */
export function imageOf(row: { readonly image: string | null }, { defaultImage, engine }: OwnImages): string {
  if (row.image === null) return defaultImage;
  // Held to what a container ran before.
  if (digestIn(row.image) !== undefined) return row.image;
  const name = builtInName(row.image);
  return engine.builtIns.find((image) => image.name === name)?.reference ?? row.image;
}

/** An image as a sentence names it: one of the platform by its name, under which it is asked for. */
export function imageText(image: string): string {
  return builtInName(image) ?? image;
}

/** Whether a row's image is the default one or another one of the platform. */
export function isOwnImage(image: string | null): boolean {
  return image === null || builtInName(image) !== undefined;
}

/**
 * What is wrong with a reference to an image of the registry, if anything. `mayPull`: the registry lets this user pull
 * it, whosever it is. `names`: of the platform's own images, which there are besides.
 */
export function imageProblem(
  image: string,
  registryHost: string | undefined,
  username: string,
  { mayPull = false, names = [] }: { readonly mayPull?: boolean; readonly names?: readonly string[] } = {},
): string | undefined {
  const others = names.length === 0 ? '' : `, or one of ${names.join(', ')}`;
  if (registryHost === undefined) {
    if (names.length > 0) return `must be one of ${names.join(', ')}: this platform has no image registry`;
    return 'this platform has no image registry: leave the image out';
  }
  const { repository } = parseImage(image, registryHost) ?? {};
  const [owner, ...rest] = repository?.split('/') ?? [];
  // A repository has an owner, or is in library.
  if (repository === undefined || rest.length === 0)
    return `must be ${registryHost}/<user>/<name>:<tag>${others}; ${bringing(image)}`;
  if (repository.length > MAX_REPOSITORY) return `has a repository name of more than ${MAX_REPOSITORY} characters`;
  if (owner !== username && owner !== 'library' && !mayPull)
    return `must be in your own repositories (${registryHost}/${username}/...), in library, or public`;
  return undefined;
}

/** A reference as Docker takes it, without a digest: nothing else is repeated in a command. */
const ELSEWHERE = /^[a-z0-9]+(?:[._/:-]+[A-Za-z0-9]+)*$/;

/** How an image comes here from elsewhere, as whoever named it would type it. */
function bringing(image: string): string {
  const name = image.length <= 100 && ELSEWHERE.test(image) ? image : 'IMAGE';
  const fromRegistry = `\`troupe image import ${name}\` brings it from Docker Hub or another registry`;
  return `${fromRegistry}, \`troupe image push\` from a file`;
}
