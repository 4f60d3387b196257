/** The call for the images that a user may make containers of. */
import { withTimeout } from '../../lib/waiting.ts';
import { type ImageView, listImages } from '../../proto/compute/images.ts';
import { callerOf, type Handler, handler } from '../service/dispatch.ts';
import type { ComputeDeps } from './deps.ts';
import { pulledBuiltIn } from './image-rules.ts';
import type { ComputeUserState } from './user-state.ts';

/** How long the engine may take to say whether an image is built, in milliseconds. */
const BUILT_TIMEOUT_MS = 2000;

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
    const others = (found ?? []).filter((image) => pulledBuiltIn(image, deps.engine) === undefined);
    const registry = others.map(
      (image): ImageView => ({
        name: image.startsWith(prefix) ? image.slice(prefix.length) : image,
        image,
        source: 'registry',
      }),
    );
    return [builtin, ...(await catalogOf(deps)), ...registry];
  });
}

/** The images that the engine has besides. Whether one is built is left out when the engine does not say so soon. */
async function catalogOf({ engine, defaultImage }: ComputeDeps): Promise<ImageView[]> {
  const others = engine.builtIns.filter(({ reference }) => reference !== defaultImage);
  return Promise.all(
    others.map(async ({ name, title, reference }): Promise<ImageView> => {
      const view = { name: title, image: reference, source: 'builtin', alias: name } as const;
      const asked = engine.isBuilt(reference).catch(() => undefined);
      const built = await withTimeout(asked, BUILT_TIMEOUT_MS, () => undefined);
      return built === undefined ? view : { ...view, built };
    }),
  );
}
