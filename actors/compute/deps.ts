/** What the compute service is given by the composition root. */
import type { Clock, Engine, ImageCatalog, Log, Shells } from '../../proto/ports.ts';
import type { Db } from '../../storage/db.ts';

export interface ComputeDeps {
  readonly db: Db;
  readonly engine: Engine;
  readonly shells: Shells;
  readonly log: Log;
  readonly clock: Clock;
  /** Parent domain of the platform's host names. */
  readonly domain: string;
  /** Host of the image registry; undefined when there is none. */
  readonly registryHost: string | undefined;
  /** What the registry has; undefined when there is none. */
  readonly catalog?: ImageCatalog;
  /** Image of containers created without one: DEFAULT_IMAGE, else the engine's base image. */
  readonly defaultImage: string;
  /** The platform's own public key, let into every container (terminal, SSH gateway). */
  readonly platformKey: string;
}
