/** What each deployment does once its container runs: files into a new folder, build, release command, switch. */
import { type CallInput, type CallReply, type Container, readableHost } from '../../../client/index.ts';
import { shellWord } from '../../../lib/shell-word.ts';
import type { CacheMode } from '../../../proto/gateway/cache-mode.ts';
import { CACHE_OF_OPENED } from '../cache.ts';
import { clean } from '../clean.ts';
import { ClientFailure } from '../failure.ts';
import { outlookOf, pageOf } from '../outside.ts';
import { guardFor, type PortGuardOption } from '../ports.ts';
import type { ClientSession } from '../session.ts';
import { runStep, runSwitch, type StepContainer, sendScript } from './inside.ts';
import type { DeployPlan } from './plan.ts';

/** A plan whose questions are answered. */
export interface ReleasePlan extends DeployPlan {
  readonly start: string;
  readonly port: number;
  /** What `troupe releases` says of it. */
  readonly note: string;
}

/** The port that an app gets which names none. */
const PORT = 8080;

/** The port that the container's variables say. */
export async function portOf({ client }: ClientSession, id: string): Promise<number> {
  const { env } = await client.call('getSettings', { params: { id } });
  const port = Number(env.PORT);
  return Number.isInteger(port) && port > 0 && port < 65_536 ? port : PORT;
}

/** Brings a release into a container. Resolves with its number. Rejects with ClientFailure or TroupeError. */
export async function install(
  session: ClientSession,
  container: Container & StepContainer,
  parts: {
    /** Fills the new folder, whose path it gets, and says how the app is run. */
    readonly fill: (folder: string) => Promise<ReleasePlan>;
    /** Gets what is told on the way. */
    readonly say: (line: string) => void;
  },
): Promise<{ readonly release: string; readonly port: number }> {
  const { out } = session;
  const { fill, say } = parts;
  await sendScript(session, container);
  const folder = (await runStep(session, container, ['begin'])).trim();
  const plan = await fill(folder);
  await runStep(session, container, ['describe', folder], { input: described(plan, container.hostname) });
  if (plan.build !== undefined) {
    say(clean(`Building: ${plan.build.replaceAll('\n', '; ')}`));
    await runStep(session, container, ['build', folder], { onLine: (line) => say(out.paint(`  ${line}`, 'dim')) });
  }
  if (plan.release !== undefined) {
    say(clean(`Before the switch: ${plan.release.replaceAll('\n', '; ')}`));
    await runStep(session, container, ['release', folder], { onLine: (line) => say(out.paint(`  ${line}`, 'dim')) });
  }
  const release = await runSwitch(session, container, ['activate', folder], say);
  return { release, port: plan.port };
}

/** Files of a release as the script takes them: `NAME BASE64` a line. */
function described({ port, check, grace, note, start, build, release }: ReleasePlan, hostname: string): string {
  const about = [
    `port=${port}`,
    `check=${check.kind}`,
    `path=${check.path}`,
    `host=${hostname}`,
    `grace=${grace}`,
    `note=${note.replace(/\p{Cc}/gu, ' ')}`,
  ];
  const files = { about: about.join('\n'), start, build, release };
  return Object.entries(files)
    .filter(([, text]) => text !== undefined)
    .map(([name, text]) => `${name} ${Buffer.from(`${text}\n`).toString('base64')}\n`)
    .join('');
}

const OPENED: readonly CallInput<'addIngress'>['body'][] = [{ port: 80 }, { port: 443, tls: 'platform' }];

/**
 * Where an app is reached: at an address, or nowhere before its owner has done what is said. `keeping`: what to say of
 * ports whose answers gateways keep although they say nothing of it.
 */
type AppPlace = { readonly keeping: readonly string[] } & (
  | { readonly url: string }
  | { readonly url: undefined; readonly hint: string }
);

/** How an app's ports are opened. `cache`: also of those that lead to it already; absent: those stay as they are. */
interface Opening {
  readonly guard?: GuardOfPorts;
  readonly cache?: CacheMode | undefined;
}

/** Who gets through at the ports that a deployment opens; empty: everybody. */
type GuardOfPorts = Awaited<ReturnType<typeof guardFor>>;

/**
 * Asks what a guard of the ports needs, before anything is deployed. Throws ClientFailure for a container whose ports
 * are open to others than the command says: those are left as they are.
 */
export async function guardOfPorts(
  session: ClientSession,
  { id, name }: Container,
  access: PortGuardOption | undefined,
): Promise<GuardOfPorts> {
  if (access === undefined) return {};
  const { rules } = await session.client.call('listIngress', { params: { id } });
  if (rules.length === 0) return guardFor(access, session);
  const other = rules.find((rule) => (rule.access ?? 'public') !== access);
  if (other === undefined) return {};
  throw new ClientFailure(
    'state',
    `Port ${other.port} of ${name} is open to others, and stays as it is: \`troupe port rm ${shellWord(name)} ` +
      `${other.port}\` closes it. Or leave --access out.`,
  );
}

/** Opens the ports that lead to the app, unless its owner has some. Resolves with where it is reached. */
export async function openPorts(
  session: ClientSession,
  container: Container,
  port: number,
  { guard = {}, cache }: Opening = {},
): Promise<AppPlace> {
  const { client, out } = session;
  const { id, name } = container;
  const params = { id };
  let { rules } = await client.call('listIngress', { params });
  if (rules.length === 0) {
    // Without a rule on 80, plain HTTP is sent to HTTPS, where visitors are asked.
    const opened = guard.access === undefined ? OPENED : OPENED.filter(({ tls }) => tls === 'platform');
    for (const rule of opened)
      await client.call('addIngress', {
        params,
        body: { ...rule, ...guard, target_port: port, cache: cache ?? CACHE_OF_OPENED },
      });
    ({ rules } = await client.call('listIngress', { params }));
  }
  const leading = rules.filter(({ target_port }) => target_port === port);
  for (const rule of leading)
    if (cache !== undefined && (rule.cache ?? 'default') !== cache)
      await client.call('changeIngress', { params: { id, port: String(rule.port) }, body: { cache } });
  const keeping = cache === undefined ? keepingLines(name, leading) : [];
  const url = pageOf(leading, readableHost(container), await outlookOf(session, out.place));
  if (url !== undefined) return { url, keeping };
  const isGuarded = rules.some(({ access }) => access !== undefined);
  const commands = OPENED.flatMap(({ port: outside, tls }) => {
    const rule = rules.find((each) => each.port === outside);
    // Whoever closed 80 before a port that asks its visitors does not want it open.
    if (rule === undefined && isGuarded) return [];
    const close = rule === undefined ? [] : [`troupe port rm ${shellWord(name)} ${outside}`];
    const how = `${tls === undefined ? '' : '/https'}${rule?.access === undefined ? '' : ` --access ${rule.access}`}`;
    return [...close, `troupe port add ${shellWord(name)} ${outside}:${port}${how}`];
  });
  return { url, keeping, hint: `No port leads to ${port}. These lead there:\n  ${commands.join('\n  ')}` };
}

/** What to do about ports, as those of earlier versions, whose answers are kept though they say nothing of it. */
function keepingLines(name: string, rules: CallReply<'listIngress'>['rules']): string[] {
  // Of what only some get, and of TLS that is passed on, nothing is kept.
  const kept = rules.filter(
    ({ port, tls, access, cache = 'default' }) =>
      cache === 'default' && access === undefined && (port !== 443 || tls !== undefined),
  );
  return kept.map(
    ({ port }) =>
      `At port ${port}, answers that say nothing of caching are shown for up to 30 s: ` +
      `\`troupe port cache ${shellWord(name)} ${port} explicit\` ends that.`,
  );
}
