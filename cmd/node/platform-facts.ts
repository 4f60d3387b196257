/** Answers clients about the platform as a whole: which it is, what it offers, and all its endpoints. */
import { callerOf, handler, handlers } from '../../actors/service/dispatch.ts';
import { runtimeEndpoints } from '../../proto/auth/actors.ts';
import { platformEndpoints } from '../../proto/auth/admin.ts';
import { authEndpoints } from '../../proto/auth/endpoints.ts';
import { platformFactsEndpoints, showPlatform, showPlatformApi, showPlatformFacts } from '../../proto/auth/platform.ts';
import { computeEndpoints } from '../../proto/compute/endpoints.ts';
import type { Caller } from '../../proto/endpoint.ts';
import { monitorEndpoints } from '../../proto/monitor/endpoints.ts';
import { MAX_MAPPINGS, MAX_OWNED_DOMAINS, networkEndpoints } from '../../proto/network/endpoints.ts';
import { notifyEndpoints } from '../../proto/notify/endpoints.ts';
import { platformOpenapi } from '../../proto/platform-openapi.ts';
import { registryLimitOf } from '../../storage/auth/users.ts';
import type { Db } from '../../storage/db.ts';
import type { GatewayAddress } from '../../storage/gateway/gateway-address.ts';
import { givenLimits } from '../../storage/user-limits.ts';
import { changePace } from '../config/change-pace.ts';
import type { Environment } from '../config/config.ts';
import { containersDomain } from '../config/containers-domain.ts';
import { version } from '../config/program.ts';
import { userLimitsOf } from '../config/user-limits.ts';
import { API_STYLES } from '../observability/pages.ts';
import { type Operations, operationsOf } from './operations.ts';

/** What the facts are made of. */
interface FactsParts {
  readonly db: Db;
  readonly environment: Environment;
  readonly domain: string;
  /** Of the images that run here; undefined where that is not known. */
  readonly architecture?: string | undefined;
  /** Whether the registry is the one that comes along. Default: not. */
  readonly hasOwnRegistry?: boolean;
  /** Where the gateway answers; undefined while none has said it. */
  readonly gatewayAddress: () => GatewayAddress | undefined;
}

/** This machine's architecture, as images name theirs (Go's GOARCH); undefined for one without images. */
export function imageArchitecture(): string | undefined {
  return new Map<string, string>([
    ['x64', 'amd64'],
    ['arm64', 'arm64'],
    ['arm', 'arm'],
    ['riscv64', 'riscv64'],
    ['ppc64', 'ppc64le'],
    ['s390x', 's390x'],
  ]).get(process.arch);
}

/** Its endpoints and their handlers. */
export function platformFacts(parts: FactsParts): Operations {
  const { environment, domain, architecture, gatewayAddress } = parts;
  const pace = changePace(environment);
  let made: ReturnType<typeof platformOpenapi> | undefined;
  // Few ask for it, and making it takes a fifth of a second of each start.
  const document = () =>
    (made ??= platformOpenapi(version, [
      { endpoints: [...authEndpoints, ...platformFactsEndpoints, ...platformEndpoints, ...runtimeEndpoints] },
      { endpoints: computeEndpoints },
      { endpoints: monitorEndpoints },
      { endpoints: notifyEndpoints },
      { endpoints: networkEndpoints, style: API_STYLES.network },
    ]));
  const who = { name: 'troupe', version } as const;
  const table = handlers<undefined>(
    handler(showPlatform, async (_: undefined) => who),
    handler(showPlatformApi, async (_: undefined) => document()),
    handler(showPlatformFacts, async (_: undefined, call) => ({
      ...who,
      domain,
      containers_domain: containersDomain(environment, domain),
      engine: environment.COMPUTE_ENGINE,
      ssh: gatewayAddress()?.ssh ?? null,
      ports: gatewayAddress()?.ports ?? null,
      registry_host: environment.REGISTRY_HOST ?? null,
      ...(architecture === undefined ? {} : { architecture }),
      ingress_host: environment.INGRESS_HOST ?? domain,
      default_image: environment.DEFAULT_IMAGE ?? null,
      limits: {
        ...(await limitsOf(parts, callerOf(call))),
        hostnames: MAX_MAPPINGS,
        domains: MAX_OWNED_DOMAINS,
        files_mb: environment.FILES_MAX_MB,
        changes_per_minute: Math.floor(pace.perSecond * 60),
        changes_burst: pace.burst,
      },
    })),
  );
  return operationsOf(platformFactsEndpoints, table);
}

/** How much the caller may have: as the operator set it for this user, else for all. */
async function limitsOf({ db, environment, hasOwnRegistry = false }: FactsParts, { userId, username }: Caller) {
  const given = (await givenLimits(db, [userId])).get(userId) ?? [];
  const limits = { ...userLimitsOf(environment), ...Object.fromEntries(given) };
  const { REGISTRY_USER_MB: ofAll, ADMIN_USERNAME: admin } = environment;
  if (!hasOwnRegistry || username === admin) return limits;
  const images_mb = (await registryLimitOf(db, username)) ?? (ofAll === 0 ? undefined : ofAll);
  return { ...limits, ...(images_mb === undefined ? {} : { images_mb }) };
}
