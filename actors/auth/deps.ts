/** What the authentication service is given by the composition root. */
import type { SharedSecret } from '../../proto/auth/shared-secret.ts';
import type { Authenticate, TokenNews } from '../../proto/auth/tokens.ts';
import type { Bus } from '../../proto/ports/bus.ts';
import type { Clock } from '../../proto/ports/clock.ts';
import type { RegistryRoom, RegistryUsage, RemovedImages } from '../../proto/ports/local-registry.ts';
import type { Log } from '../../proto/ports/log.ts';
import type { Db } from '../../storage/db.ts';
import type { Placement } from '../service/placement.ts';
import type { RelyingParty } from './login/webauthn-rules.ts';
import type { RegistrySigner } from './registry/registry-key.ts';

export interface AuthDeps {
  readonly db: Db;
  readonly bus: Bus;
  readonly placement: Placement;
  readonly log: Log;
  readonly clock: Clock;
  readonly jwtSecret: SharedSecret;
  readonly sessionTtlSeconds: number;
  /** The platform's, in lower case. */
  readonly domain: string;
  /** Proves tokens (those that come as HTTP Basic passwords). */
  readonly authenticate: Authenticate;
  /**
   * Told of what this node changed, before the answer: here a deleted token opens nothing more. Other nodes hear from
   * storage.
   */
  readonly tokensChanged: (news: TokenNews) => void;
  /** The user of this name is the administrator. */
  readonly adminUsername: string;
  /** Whom security keys are made for. */
  readonly relyingParty: RelyingParty;
  /** The image registry that tokens are made for. */
  readonly registry?: RegistryDeps;
}

/** How registry tokens are made. */
export interface RegistryDeps {
  /** The only registry they are made for, as REGISTRY_HOST names it; without it, for whichever asks. */
  readonly service?: string | undefined;
  /** Default: `troupe`. */
  readonly issuer?: string | undefined;
  /** Without it tokens are signed with the shared secret. */
  readonly signer?: RegistrySigner | undefined;
  /** Whether tokens say to whom they were given: the platform's own registry asks. */
  readonly asksHolders?: boolean | undefined;
  /** What its disk takes now; undefined: that is not for the platform to know. */
  readonly room?: (() => Promise<RegistryRoom>) | undefined;
  /** What a user has there; undefined: that is not for the platform to know. */
  readonly usage?: ((username: string) => Promise<RegistryUsage>) | undefined;
  /** Removes the images of a user, as far as tags lead to them; again goes on. Undefined: there is no registry. */
  readonly removeImages?: ((username: string) => Promise<RemovedImages>) | undefined;
}
