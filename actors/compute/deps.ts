/** What the compute service is given by the composition root. */

import type { KeyObject } from 'node:crypto';
import type { TokenWatch } from '../../proto/auth/tokens.ts';
import type { AccessProofs } from '../../proto/gateway/port-guard.ts';
import type { Clock } from '../../proto/ports/clock.ts';
import type { Engine, ImageCatalog, RegistryAuth } from '../../proto/ports/engine.ts';
import type { KeptCommands } from '../../proto/ports/kept-command.ts';
import type { Log } from '../../proto/ports/log.ts';
import type { PasswordHashes } from '../../proto/ports/passwords.ts';
import type { Shells } from '../../proto/ports/shell.ts';
import type { UserLimits } from '../../proto/user-limits.ts';
import type { Db } from '../../storage/db.ts';
import type { Placement } from '../service/placement.ts';

export interface ComputeDeps {
  readonly db: Db;
  readonly placement: Placement;
  readonly engine: Engine;
  readonly shells: Shells;
  /** Commands that outlive their connections. */
  readonly commands: KeptCommands;
  /** How long a command waits for a client that lost its connection, ms. Default 10 minutes. */
  readonly commandLingerMs?: number;
  /** For shells that wait without a connection. */
  readonly tokens: TokenWatch;
  /** How long a shell waits for a client that lost its connection. Default 30 s. */
  readonly lingerMs?: number;
  /**
   * How long gateways may take to hear that a container is restarted, and what they had begun to arrive there, ms.
   * Default 1000.
   */
  readonly unheardMs?: number;
  /** Largest file or archive that is transferred. Default 1024. */
  readonly filesMaxMb?: number;
  /** What users may have for whom the operator set nothing. */
  readonly userLimits: UserLimits;
  readonly log: Log;
  readonly clock: Clock;
  /** Parent domain of the containers' host names. */
  readonly containersDomain: string;
  /** Ports on which the platform itself listens: no container gets them. */
  readonly takenPorts?: readonly number[];
  /** Where the SSH gateway is reached; undefined while that is not known. Without it, nothing is said of it. */
  readonly sshAddress?: () => { readonly host: string; readonly port: number } | undefined;
  /** Host of the image registry; undefined when there is none. */
  readonly registryHost: string | undefined;
  /**
   * What the platform's registry is shown when it is asked for `image` on behalf of a user; asked right before each
   * pull. Without it, images are pulled as anybody.
   */
  readonly registryAuth?: (pull: { readonly userId: string; readonly image: string }) => Promise<RegistryAuth>;
  /** Those of the registry's repositories that a user may pull. Without it: their own, and `library`. */
  readonly mayPull?: (username: string, repositories: readonly string[]) => Promise<readonly string[]>;
  /** What the registry has; undefined when there is none. */
  readonly catalog?: ImageCatalog;
  /** Image of containers created without one: DEFAULT_IMAGE, else the engine's base image. */
  readonly defaultImage: string;
  /** The platform's own public key, let into every container (terminal, SSH gateway). */
  readonly platformKey: string;
  /** ENCRYPTION_KEY: what settings of containers are sealed with. */
  readonly sealKey: KeyObject;
  /** Hashes the passwords of ingress rules. */
  readonly passwords: Pick<PasswordHashes, 'hash'>;
  /** Makes entries, which gateways take. */
  readonly accessProofs: Pick<AccessProofs, 'entry'>;
}
