/**
 * The actor that keeps the gateway's snapshot current. It looks at routes and containers every 5 seconds, and at once
 * when routes or open ports change, a container runs or is to stop: its address may be another container's next.
 */
import { hostname } from 'node:os';
import { errorText } from '../../lib/errors.ts';
import type { ComputeNews } from '../../proto/compute/events.ts';
import { addressOf, type NewRoute, RouteTable, type StaticRoute } from '../../proto/gateway/routes.ts';
import type { MappedHost } from '../../proto/ports/acme.ts';
import type { Ending } from '../../proto/ports/ending.ts';
import {
  listRoutes,
  liveNodeRoutes,
  type NodeRouteRow,
  operatorRoutes,
  type RouteRow,
  watchRoutes,
} from '../../storage/gateway/routes.ts';
import { type AnyRef, dispatch, type Ref, spawn } from '../../supervision/index.ts';
import type { Arrivals } from './arrivals.ts';
import { hasSameCaches, recachedOrigins } from './cache-changes.ts';
import type { ContainerTarget, GatewayDeps } from './deps.ts';
import { KnownMappings } from './known-mappings.ts';
import { namesIn, type RouteSnapshot, type Routing } from './routing.ts';
import { ContainerTargets } from './targets.ts';

/** How often routes are read, and of containers what changed. */
const EVERY_MS = 5000;
/** The shortest time between two looks because of news, ms. */
const NEWS_MS = 100;
/** The shortest time between two pages of all containers and mappings, ms. */
const SWEEP_MS = 4000;
const NO_PORTS: ReadonlySet<number> = new Set();
const NO_GUARDS: NonNullable<ContainerTarget['guards']> = new Map();
const NOTHING_MAPPED: ReadonlyMap<string, MappedHost> = new Map();

interface RoutesState {
  readonly watching: readonly Ending[];
  /** The routes as they were last read, without containers and mapped hosts, to know whether they changed. */
  last: string;
  /** What is wrong at the moment; it is logged once. */
  problem: string | undefined;
}

/** All routes. This process's services, or else those of living processes, stand for the platform's own rows. */
export async function tableRoutes({ db, ownRoutes }: Pick<GatewayDeps, 'db' | 'ownRoutes'>): Promise<StaticRoute[]> {
  const rows = ownRoutes === undefined ? await listRoutes(db) : (await operatorRoutes(db)).map(operators);
  const live = ownRoutes ?? (await liveNodeRoutes(db)).filter(isReachable).map(withoutAddress);
  const taken = new Set(rows.filter(({ managed }) => !managed).map(keyOf));
  const found: StaticRoute[] = [];
  for (const route of live) {
    if (taken.has(keyOf(route))) continue;
    taken.add(keyOf(route));
    found.push({ ...route, managed: true });
  }
  // While no process lives, the rows stand.
  return [...found, ...rows.filter((route) => !route.managed || !taken.has(keyOf(route)))];
}

const operators = (row: RouteRow) => ({ ...row, managed: false });
const withoutAddress = ({ address: _, ...route }: NodeRouteRow): NewRoute => route;

/** Whether this process reaches the target: a loopback address is reached on its own machine only. */
function isReachable({ target, address }: NodeRouteRow): boolean {
  const { host } = addressOf(target);
  const isLoopback = host === 'localhost' || host === '::1' || host.startsWith('127.');
  return !isLoopback || address.slice(0, address.lastIndexOf(':')) === hostname();
}

/** Whether two maps say the same. Thousands of containers are compared in each round: as they are, not as text. */
function hasSameEntries<K, V>(
  before: ReadonlyMap<K, V> | undefined,
  now: ReadonlyMap<K, V>,
  isSame: (one: V, other: V) => boolean,
): boolean {
  if (before?.size !== now.size) return false;
  for (const [key, value] of now) {
    const known = before.get(key);
    if (known === undefined || !isSame(known, value)) return false;
  }
  return true;
}

function isSameTarget(one: ContainerTarget, other: ContainerTarget): boolean {
  if (one.addressName !== other.addressName || !hasSameCaches(one, other)) return false;
  if (one.address !== other.address || one.isComing !== other.isComing || one.ports.size !== other.ports.size)
    return false;
  for (const [port, inside] of one.ports) if (other.ports.get(port) !== inside) return false;
  const [ends, endsNow] = [one.endsTls ?? NO_PORTS, other.endsTls ?? NO_PORTS];
  if (ends.size !== endsNow.size || ![...ends].every((port) => endsNow.has(port))) return false;
  const [guards, guardsNow] = [one.guards ?? NO_GUARDS, other.guards ?? NO_GUARDS];
  // A rule never changes: one that takes its place has another id.
  return hasSameEntries(guards, guardsNow, (before, now) => before.rule === now.rule && before.hash === now.hash);
}

/** Whether a mapped host leads nowhere any more, or to another container. */
function isAnyMoved(before: RouteSnapshot['mapped'], now: RouteSnapshot['mapped']): boolean {
  if (before === now) return false;
  for (const [host, { containerId }] of before ?? []) if (now?.get(host)?.containerId !== containerId) return true;
  return false;
}

/** Whether a port is open no more, or asks visitors for something else than before, or a hostname is taken away. */
function isAnyShut(before: RouteSnapshot | undefined, now: Pick<RouteSnapshot, 'containers' | 'mapped'>): boolean {
  for (const [id, { ports, guards = NO_GUARDS }] of before?.containers ?? []) {
    const is = now.containers.get(id);
    const guardsNow = is?.guards ?? NO_GUARDS;
    for (const port of ports.keys())
      if (is?.ports.has(port) !== true || guardsNow.get(port)?.rule !== guards.get(port)?.rule) return true;
    // A mapped host leads to ports without a rule, too.
    for (const port of guardsNow.keys()) if (!guards.has(port)) return true;
  }
  return isAnyMoved(before?.mapped, now.mapped);
}

/** The containers whose readable name leads elsewhere than before, or that have it now. */
function renamed(before: RouteSnapshot['containers'] | undefined, now: RouteSnapshot['containers']): Set<string> {
  const [was, is] = [namesIn(before), namesIn(now)];
  const ids = new Set<string>();
  for (const name of new Set([...was.keys(), ...is.keys()])) {
    const [from, to] = [was.get(name), is.get(name)];
    if (from !== to) for (const id of [from, to]) if (id !== undefined) ids.add(id);
  }
  return ids;
}

const keyOf = ({ host, path_prefix, priority }: NewRoute) => `${host} ${path_prefix} ${priority}`;

/**
 * Starts the actor. It puts each new snapshot into `routing`, and tells `arrivals` of containers that are starting.
 * While storage or engine are away, the last snapshot stays.
 */
export function startRoutes(parent: AnyRef, deps: GatewayDeps, routing: Routing, arrivals: Arrivals): Ref<'look'> {
  const targets = new ContainerTargets(deps);
  const mappings = deps.mappings === undefined ? undefined : new KnownMappings(deps.mappings);
  let isComing = false;
  /** Containers whose rules or status changed since the last look. */
  let changed = new Set<string>();
  /** Containers whose status changed since the last look that came about. */
  const switched = new Set<string>();
  /** Something else changed: the next look is at all containers. */
  let isUnsure = true;
  let [lookedAt, sweptAt] = [Number.NEGATIVE_INFINITY, Number.NEGATIVE_INFINITY];
  const forget = (...targets: readonly (ContainerTarget | undefined)[]) => {
    for (const target of targets) if (target?.address !== undefined) deps.forgetAnswers?.(target.address);
  };
  const look = async (state: RoutesState, message: 'look' | 'changed'): Promise<RoutesState> => {
    isComing = false;
    const whom = isUnsure || message === 'look' ? 'all' : changed;
    changed = new Set();
    isUnsure = false;
    lookedAt = performance.now();
    const sweeps = whom === 'all' && lookedAt - sweptAt >= SWEEP_MS;
    const seen = arrivals.look();
    const { snapshot } = routing;
    const before = snapshot?.containers;
    try {
      const [rows, mapped] = await Promise.all([tableRoutes(deps), mappings?.read(sweeps) ?? NOTHING_MAPPED]);
      const also = new Set([...mapped.values()].map(({ containerId }) => containerId));
      const containers = await targets.find(also, whom, sweeps);
      if (sweeps) sweptAt = lookedAt;
      const routes = [...deps.fileRoutes, ...rows];
      const text = JSON.stringify(routes);
      const isSame = text === state.last && snapshot?.mapped === mapped;
      if (!isSame || !hasSameEntries(before, containers, isSameTarget)) {
        const now = { routes: new RouteTable(routes), containers, mapped };
        routing.swap(now);
        for (const host of recachedOrigins(snapshot, now)) deps.forgetAnswers?.(host);
        const named = renamed(before, containers);
        const isShut = text !== state.last || named.size > 0 || isAnyShut(snapshot, { containers, mapped });
        if (isShut) deps.endShut?.((entrance) => routing.admits(entrance));
        for (const id of named) forget(before?.get(id), containers.get(id));
        state.last = text;
      }
      for (const id of switched) {
        const [was, is] = [before?.get(id)?.address, containers.get(id)?.address];
        forget(before?.get(id), containers.get(id));
        if (is !== undefined) deps.expectProgram?.(is);
        if (was !== undefined && is !== undefined && was !== is) deps.leaveOrigin?.(was);
      }
      switched.clear();
      seen();
      if (state.problem !== undefined) deps.log.info({}, 'routes are read again');
      state.problem = undefined;
    } catch (error) {
      isUnsure = true;
      const problem = errorText(error);
      if (problem !== state.problem)
        deps.log.warn({ err: error }, 'routes could not be read: the last known ones go on');
      state.problem = problem;
    }
    return state;
  };
  /** Whether a change of status needs a look. A container that is being started has no address yet, and is awaited. */
  const concerns = ({ containerId, status }: Extract<ComputeNews, { kind: 'status' }>): boolean => {
    const known = routing.snapshot?.containers.get(containerId);
    if (known === undefined) return false;
    if (status === 'failed' || status === 'stopped') return true;
    arrivals.expect(containerId);
    // It may be back at its address before the next look.
    if (known.address !== undefined) deps.expectProgram?.(known.address);
    return status === 'running' || known.address !== undefined;
  };
  const ref = spawn<RoutesState, 'look' | 'changed'>(parent, look, {
    name: 'routes',
    kind: 'gateway/routes',
    // Two looks that wait would find the same.
    mailbox: { capacity: 2, policy: 'drop-newest' },
    initialStateFunc: (ctx) => {
      ctx.every(EVERY_MS, 'look');
      const look = () => dispatch(ctx.self, 'look');
      // A user changes rules and hostnames at will: that must not make the gateway ask about all containers.
      const lookSoon = () => {
        if (isComing) return;
        isComing = true;
        const wait = NEWS_MS - (performance.now() - lookedAt);
        if (wait > 0) ctx.after(wait, 'changed');
        else dispatch(ctx.self, 'changed');
      };
      const onNews = (news: ComputeNews) => {
        if (news.kind === 'key' || news.kind === 'ssh' || news.kind === 'user') return;
        if (news.kind === 'status' && !concerns(news)) return;
        if (news.kind === 'all') targets.containers.suspectAll();
        else targets.containers.suspect(news.containerId);
        if (news.kind === 'status') switched.add(news.containerId);
        if (news.kind === 'ingress' || news.kind === 'status') changed.add(news.containerId);
        else isUnsure = true;
        lookSoon();
      };
      const onMapping = (hostname: string | undefined) => {
        mappings?.suspect(hostname);
        lookSoon();
      };
      const watching = [
        watchRoutes(deps.db, look),
        deps.computeNews.onNews(onNews),
        ...(deps.mappings === undefined ? [] : [deps.mappings.watch(onMapping)]),
      ];
      return { watching, last: '', problem: undefined };
    },
    afterStop: async (state) => {
      await Promise.all(state.watching.map((ending) => ending.close()));
    },
  });
  dispatch(ref, 'look');
  return ref;
}
