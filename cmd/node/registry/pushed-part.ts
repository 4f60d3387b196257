/** What a request to the registry writes, and whose. */

/** A request that writes. */
export interface PushedPart {
  readonly repository: string;
  readonly kind: 'begin' | 'upload' | 'manifest';
  /** The upload, the blob of another repository that is to be mounted, or the tag that a manifest gets. */
  readonly name: string | undefined;
}

/** What a request writes; undefined for one that the registry does not know. */
export function partOf(method: string, target: string): PushedPart | undefined {
  const at = target.indexOf('?');
  let path: string;
  try {
    path = decodeURIComponent(at < 0 ? target : target.slice(0, at));
  } catch {
    return undefined;
  }
  const searchParams = new URLSearchParams(at < 0 ? '' : target.slice(at));
  const [, repository, uploads, upload = '', manifest, reference = ''] =
    /^\/v2\/(.+)\/(?:(blobs\/uploads)\/?([^/]*)|(manifests|blobs)\/([^/]+))$/.exec(path) ?? [];
  if (repository === undefined) return undefined;
  if (uploads === undefined) {
    return method === 'DELETE' || manifest === 'manifests'
      ? { repository, kind: 'manifest', name: reference.includes(':') ? undefined : reference }
      : undefined;
  }
  if (upload !== '') return { repository, kind: 'upload', name: upload };
  const mount = /^sha256:([0-9a-f]{64})$/.exec(searchParams.get('mount') ?? '')?.[1];
  return { repository, kind: 'begin', name: mount };
}

/** The user whose repository it is; undefined for a name of one part. */
export function ownerIn(repository: string): string | undefined {
  const [owner, rest] = repository.split('/', 2);
  return rest === undefined ? undefined : owner;
}

/** The folder of the store from which a DELETE of the registry takes the link; undefined for another request. */
export function deletedFolder(target: string): string | undefined {
  const [path = ''] = target.split('?', 1);
  const [, repository, kind, hex] =
    /^\/v2\/([a-z0-9._/-]+)\/(manifests|blobs)\/sha256(?::|%3A)([0-9a-f]{64})$/i.exec(path) ?? [];
  if (hex === undefined) return undefined;
  const part = kind === 'manifests' ? '_manifests/revisions' : '_layers';
  return `repositories/${repository}/${part}/sha256/${hex}`;
}
