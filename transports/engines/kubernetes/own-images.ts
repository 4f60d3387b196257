/** The platform's own images on a cluster, where nothing is built: the nodes pull them from where they were sent. */
import { catalogVersion } from '../../../proto/built-in-images.ts';
import { EngineError } from '../../../proto/ports/engine.ts';
import { parseImageReference } from '../common/image-reference.ts';

/** Where the platform's own images are. */
export interface OwnImagePlaces {
  /** The image of containers that name none. */
  readonly baseImage?: string;
  /** What stands before the names of the catalog's images in a registry, with a slash at its end. */
  readonly catalogImages?: string;
  /** The references of the catalog's images, of this version's recipes. */
  readonly catalogToday?: readonly string[];
}

/**
 * The image that is kept of a spec. One of the catalog keeps the recipe that its container had before: a new one is for
 * new containers. Throws EngineError `image_not_found` for what is no image.
 */
export function keptImage(image: string, before: string | undefined): string {
  const wanted = catalogVersion(image);
  if (wanted === undefined) return parseImageReference(image).full;
  const former = before === undefined ? undefined : catalogVersion(before);
  const isSame = before !== undefined && former?.name === wanted.name && former.version.startsWith(':');
  return isSame && !wanted.version.startsWith('@') ? before : image;
}

/** What a node is to pull for a kept image. Throws EngineError `image_not_found` when nobody says where it is. */
export function nodeImage(image: string, { catalogImages }: OwnImagePlaces): string {
  const wanted = catalogVersion(image);
  if (wanted === undefined) return image;
  const { name, version } = wanted;
  if (catalogImages !== undefined && version !== '') return `${catalogImages}${name}${version}`;
  throw new EngineError(
    'image_not_found',
    `The image ${name} is of the catalog, and this platform has none: the operator sends its images to a registry ` +
      'with `troupe image catalog`, and sets CATALOG_IMAGES.',
  );
}

/** Whether a kept image is one of the platform's. */
export function isOwnImage(image: string, { baseImage }: OwnImagePlaces): boolean {
  if (catalogVersion(image) !== undefined) return true;
  return baseImage !== undefined && image === parseImageReference(baseImage).full;
}

/** What is in the way of a kept image, with what is to be done where it is one of the catalog that is not there. */
export function pullProblem(error: EngineError, image: string, places: OwnImagePlaces): EngineError {
  const wanted = catalogVersion(image);
  const { catalogImages = '', catalogToday = [] } = places;
  if (wanted === undefined || error.code !== 'image_not_found') return error;
  const todo = catalogToday.includes(image)
    ? `or not for this kind of machine. The operator sends it there: \`troupe image catalog --to ${catalogImages}\`.`
    : 'as this container has it. Change its image to another one, start it, and change it back: it has the newer then.';
  return new EngineError(
    'image_not_found',
    `The image ${wanted.name} of the catalog is not at ${catalogImages}, ${todo} ${error.message}`,
    { cause: error },
  );
}
