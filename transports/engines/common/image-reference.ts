import { errorText } from '../../../lib/errors.ts';
import { EngineError } from '../../../proto/ports/engine.ts';
import { cleanReason } from './calls.ts';

/** An image reference in its parts. `repository` starts with the registry's host. */
export interface ImageReference {
  readonly repository: string;
  /** A tag, or a digest `sha256:...`. */
  readonly version: string;
  /** The whole in full form: `docker.io/library/debian:12`, `host:5000/a/b@sha256:...`. */
  readonly full: string;
}

const COMPONENT = /^[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*$/;
const HOST = /^(?:localhost|[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?|\[[0-9a-fA-F:]+\])(?::[0-9]{1,5})?$/;

/**
 * Reads an image reference by the grammar of the distribution project (reference.go): registry, path, tag, digest. A
 * name without registry is Docker Hub's; without tag it is `latest`. The full form never names an image by its local
 * id. Throws EngineError `image_not_found` when it is none.
 */
export function parseImageReference(text: string): ImageReference {
  const [beforeDigest = '', digest, ...more] = text.split('@');
  const slash = beforeDigest.lastIndexOf('/');
  const colon = beforeDigest.indexOf(':', slash + 1);
  const name = colon === -1 ? beforeDigest : beforeDigest.slice(0, colon);
  const tag = colon === -1 ? 'latest' : beforeDigest.slice(colon + 1);
  const parts = name.split('/');
  const first = parts[0] ?? '';
  const hasHost = parts.length > 1 && (/[.:[]/.test(first) || first === 'localhost' || /[A-Z]/.test(first));
  const registry = hasHost ? first : 'docker.io';
  const path = hasHost ? parts.slice(1) : parts;
  if (registry === 'docker.io' && path.length === 1) path.unshift('library');
  const good =
    text.length <= 512 &&
    more.length === 0 &&
    HOST.test(registry) &&
    path.every((part) => COMPONENT.test(part)) &&
    path.join('/').length <= 255 &&
    /^[\w][\w.-]{0,127}$/.test(tag) &&
    (digest === undefined || /^sha256:[0-9a-f]{64}$/.test(digest));
  if (!good) {
    throw new EngineError('image_not_found', `${JSON.stringify(text.slice(0, 200))} is not an image reference.`);
  }
  const repository = `${registry}/${path.join('/')}`;
  return digest === undefined
    ? { repository, version: tag, full: `${repository}:${tag}` }
    : { repository, version: digest, full: `${repository}@${digest}` };
}

/** What a registry knows for sure, in Docker's words. */
const FINAL = new RegExp(
  [
    'not found|manifest unknown|name unknown|does not exist|access denied|unauthorized|authentication required',
    'no basic auth|denied:|invalid reference|no matching manifest|unsupported|HTTP response to HTTPS',
  ].join('|'),
  'i',
);
/** What may be otherwise later. */
const PASSING = new RegExp(
  [
    'timeout|timed out|connection refused|no such host|network is unreachable|too ?many ?requests|temporar',
    'TLS handshake|EOF',
  ].join('|'),
  'i',
);

/**
 * Docker answers a pull that failed with 404 or 500 and a sentence. What the registry knows for sure (no such name, no
 * right to it) is `image_not_found`; a registry out of reach, or one that asks to slow down, may work later.
 */
export function pullError(reference: ImageReference, reason: string, cause?: unknown): EngineError {
  const text = cleanReason(reason);
  const code = FINAL.test(text) && !PASSING.test(text) ? 'image_not_found' : 'unavailable';
  return new EngineError(code, `The image ${reference.full} cannot be pulled: ${text || errorText(cause)}`, { cause });
}
