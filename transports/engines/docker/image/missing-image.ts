import { BASE_NAME, builtInName } from '../../../../proto/built-in-images.ts';
import { EngineError } from '../../../../proto/ports/engine.ts';
import { parseImageReference } from '../../common/image-reference.ts';
import { digestOfTag } from './fixed-tag.ts';

/** That an image was removed from the machine after it had been there, by the name that people type, and what helps. */
export function missingImage(image: string, cause: unknown): EngineError {
  return new EngineError('image_not_found', `${whatIsMissing(image)}, which fetches it anew.`, { cause });
}

function whatIsMissing(image: string): string {
  const again = 'is not on this machine any more. Send the change again, or start the container again';
  const name = builtInName(image);
  if (name !== undefined) return `The platform's image ${name === BASE_NAME ? 'default' : name} ${again}`;
  const { repository, version } = parseImageReference(image);
  const digest = digestOfTag(version);
  return digest === undefined ? `The image ${image} ${again}` : `The image ${repository}@${digest} ${again}`;
}
