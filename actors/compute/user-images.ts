/** The call for the images that a user may make containers of. */
import { type ImageView, listImages } from '../../proto/compute/endpoints.ts';
import { callerOf, type Handler, handler } from '../service/dispatch.ts';
import type { ComputeDeps } from './deps.ts';
import type { ComputeUserState } from './user-state.ts';

/** Its handler. */
export function imagesHandler(deps: ComputeDeps): Handler<ComputeUserState> {
  return handler(listImages, async (_: ComputeUserState, call) => {
    const builtin: ImageView = {
      name: deps.defaultImage === deps.engine.baseImage ? 'Debian (default)' : `${deps.defaultImage} (default)`,
      image: deps.defaultImage,
      source: 'builtin',
    };
    const { userId, username } = callerOf(call);
    const found = await deps.catalog?.list({ userId, username }).catch((error: unknown) => {
      // Containers can still be made of the default image.
      deps.log.warn({ err: error }, 'the image registry does not answer');
      return [];
    });
    const prefix = `${deps.registryHost}/`;
    const registry = (found ?? []).map(
      (image): ImageView => ({
        name: image.startsWith(prefix) ? image.slice(prefix.length) : image,
        image,
        source: 'registry',
      }),
    );
    return [builtin, ...registry];
  });
}
