/** `troupe top`, `admin`. */
import type { CallReply, ContainerMetrics } from '../../client/index.ts';
import { clean } from './clean.ts';
import { type ClientCommandOptions, type ClientSession, openSession } from './session.ts';

const HEADS = ['NAME', 'CPU', 'MEMORY', 'DISK', 'NODE', 'ID'];
const MIB = 2 ** 20;
const GIB = 2 ** 30;

/** Shows what the containers use: on a terminal again and again, elsewhere once. */
export async function top(options: ClientCommandOptions): Promise<void> {
  const session = openSession(options);
  const { client, out } = session;
  if (!out.isTerminal || out.json) return showOnce(session, await client.call('podMetrics'));
  const { stdout, onInterrupt } = out.place;
  stdout.write('\x1b[?1049h\x1b[?25l');
  let release = () => {};
  try {
    let names = await namesOf(session);
    const following = client.follow.metrics({
      onMetrics(metrics) {
        const isKnown = rowsOf(metrics, names).every(([name, ...rest]) => name !== rest.at(-1));
        if (!isKnown)
          void namesOf(session).then(
            (read) => (names = read),
            () => undefined,
          );
        stdout.write('\x1b[H\x1b[J');
        out.note(`${session.profile.url}, ${new Date(metrics.timestamp).toLocaleTimeString('en-GB')}; Ctrl-C ends\n`);
        out.table(metrics, HEADS, rowsOf(metrics, names), 'No container runs.');
      },
    });
    release = onInterrupt(() => following.close());
    const { error } = await following.done;
    if (error !== undefined) throw error;
  } finally {
    release();
    stdout.write('\x1b[?25h\x1b[?1049l');
  }
}

async function showOnce(session: ClientSession, metrics: ContainerMetrics): Promise<void> {
  session.out.table(metrics, HEADS, rowsOf(metrics, await namesOf(session)), 'No container runs.');
}

async function namesOf({ client }: ClientSession): Promise<ReadonlyMap<string, string>> {
  const { containers } = await client.call('listContainers');
  return new Map(containers.map(({ id, name }) => [id, name]));
}

function rowsOf({ pods }: ContainerMetrics, names: ReadonlyMap<string, string>): string[][] {
  return pods.map((pod) => {
    // A namespace ends with the id of its container; that of the platform itself has none.
    const id = pod.namespace.startsWith('compute-') ? (pod.namespace.split('-')[2] ?? '') : pod.name;
    const cores = (millis: number) => (millis / 1000).toFixed(2);
    return [
      names.get(id) ?? id,
      `${cores(pod.cpu_usage)}/${cores(pod.cpu_capacity)}`,
      `${Math.round(pod.memory_usage / MIB)}/${Math.round(pod.memory_capacity / MIB)} MB`,
      `${(pod.disk_usage / GIB).toFixed(2)} GB`,
      pod.node,
      id,
    ];
  });
}

/** Lists the containers of all users. */
export async function adminPs(options: ClientCommandOptions): Promise<void> {
  const { client, out } = openSession(options);
  const containers = await client.call('listAllContainers');
  const rows = containers.map((each) => [
    each.owner,
    each.name,
    out.status(each.status),
    each.instance_type,
    `${each.memory_used_mb}/${each.memory_mb} MB`,
    out.when(each.created_at),
    each.external_ip,
    each.id,
  ]);
  out.table(
    containers,
    ['OWNER', 'NAME', 'STATUS', 'SIZE', 'MEMORY', 'CREATED', 'ADDRESS', 'ID'],
    rows,
    'There are no containers.',
  );
}

/** Lists the machines. */
export async function adminMachines(options: ClientCommandOptions): Promise<void> {
  const { client, out } = openSession(options);
  const answer = await client.call('clusterInfo');
  const share = (percent: number) => `${percent.toFixed(0)} %`;
  const rows = answer.nodes.map((node) => {
    const wrong = node.conditions.filter(({ type, status }) => (type === 'Ready') !== (status === 'True'));
    return [
      share(node.cpu_percent),
      share(node.memory_percent),
      share(node.disk_percent),
      wrong.length === 0
        ? 'ok'
        : out.paint(wrong.map(({ type }) => (type === 'Ready' ? 'not ready' : type)).join(', '), 'red'),
      node.name,
    ];
  });
  out.table(answer, ['CPU', 'MEMORY', 'DISK', 'CONDITION', 'NAME'], rows, 'Nothing is measured.');
}

export interface MapOptions extends ClientCommandOptions {
  readonly actors?: boolean;
}

type Edges = CallReply<'dependencyGraph'>['edges'];

/** Shows what depends on what: what goes through routes of the gateway as one line for each service behind them. */
export async function adminMap(options: MapOptions): Promise<void> {
  const { client, out } = openSession(options);
  const graph = await client.call('dependencyGraph');
  const states = new Map(graph.nodes.map(({ id, status }) => [id, status]));
  const edges = withoutRoutes(graph.edges).filter(({ to }) => options.actors === true || !to.startsWith('actor:'));
  const rows = edges.map(({ from, to, kind, traffic }) => [
    from,
    clean(kind),
    traffic === undefined ? '' : `${traffic.total} ${traffic.unit}`,
    out.status(states.get(to) ?? ''),
    to,
  ]);
  out.table(graph, ['FROM', 'BY', 'TRAFFIC', 'STATUS OF TO', 'TO'], rows, 'Nothing is known.');
}

/** The edges, with one from the gateway to each service that its routes lead to. */
function withoutRoutes(edges: Edges): Edges {
  const isRoute = (id: string) => id.startsWith('route:');
  const gateways = new Map(edges.filter(({ to }) => isRoute(to)).map(({ from, to }) => [to, from]));
  const leading = new Set(edges.map(({ from }) => from));
  const seen = new Set<string>();
  return edges.flatMap((edge) => {
    // A route of the operator leads to no service.
    if (isRoute(edge.to)) return leading.has(edge.to) ? [] : [edge];
    if (!isRoute(edge.from)) return [edge];
    const from = gateways.get(edge.from) ?? edge.from;
    // Routes are counted by what is behind them: those of one service have one figure.
    const key = `${from} ${edge.to}`;
    if (seen.has(key)) return [];
    seen.add(key);
    return [{ ...edge, from }];
  });
}
