/**
 * Random clients and a random origin with shared connections between them: answers that are late, large, cut, chunked, or end their
 * connection, and clients that leave or stop reading. Everybody gets their own answer whole; only what an origin breaks off is broken.
 */
import { Agent, type IncomingMessage, request } from 'node:http';
import type { Socket } from 'node:net';
import { pause } from '../pause.ts';
import type { Cleanup } from '../temp.ts';
import { openProxy, rawOrigin } from './proxy.ts';

export interface PipeTrialOptions {
  readonly seed: number;
  readonly rounds: number;
  readonly clients: number;
}

export interface PipeTrialReport {
  /** Answers that came whole, requests that their clients left, and those that the origin broke off. */
  readonly answered: number;
  readonly left: number;
  readonly broken: number;
  /** Requests that the origin saw more than once. */
  readonly repeated: number;
  /** Most requests that one read of the origin brought. */
  readonly most: number;
  /** What went wrong: must be empty. */
  readonly wrong: readonly string[];
}

/** A number below another, as a seed has it. */
export type Below = (bound: number) => number;

export function belowOf(seed: number): Below {
  let state = seed & 0x7fffffff;
  return (bound) => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fffffff;
    return (state >>> 8) % bound;
  };
}

/** What a target asks of the origin. */
const KINDS = ['plain', 'chunked', 'empty', 'late', 'slow', 'large', 'announced', 'unannounced', 'broken'] as const;
type Kind = (typeof KINDS)[number];
/** How often each comes, of a thousand. */
const OFTEN: Readonly<Record<Kind, number>> = {
  ...{ plain: 600, chunked: 250, empty: 60, late: 40, slow: 4, large: 10, announced: 20, unannounced: 10, broken: 6 },
};

const kindOf = (target: string): Kind => KINDS.find((kind) => target.startsWith(`/${kind}/`)) ?? 'plain';

/** The body for a target: nobody else's. */
function bodyOf(target: string): string {
  if (kindOf(target) === 'empty') return '';
  return `${target} `.repeat(kindOf(target) === 'large' ? 40_000 : 1 + (target.length % 7));
}

async function answer(socket: Socket, target: string, below: Below): Promise<void> {
  const kind = kindOf(target);
  const body = bodyOf(target);
  if (kind === 'late') await pause(1 + below(20), 'slow peer');
  if (kind === 'slow') await pause(150 + below(200), 'slow peer');
  if (socket.destroyed || socket.writableEnded) return;
  if (kind === 'broken') {
    socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${body.length + 1}\r\n\r\n${body}`, 'latin1');
    socket.end();
    return;
  }
  const closes = kind === 'announced' ? 'Connection: close\r\n' : '';
  const text =
    kind === 'chunked'
      ? `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`
      : `HTTP/1.1 200 OK\r\nContent-Length: ${body.length}\r\n${closes}\r\n${body}`;
  // Cut anywhere, now and then.
  const at = below(3) === 0 ? below(text.length) : text.length;
  socket.write(text.slice(0, at), 'latin1');
  if (at < text.length) {
    await pause(below(3), 'slow peer');
    socket.write(text.slice(at), 'latin1');
  }
  if (kind === 'announced' || kind === 'unannounced') socket.end();
}

/** Runs it. */
export async function runPipeTrial(t: Cleanup, options: PipeTrialOptions): Promise<PipeTrialReport> {
  const below = belowOf(options.seed);
  const seen = new Map<string, number>();
  let most = 0;
  const port = await rawOrigin(t, (socket) => {
    let text = '';
    let turn = Promise.resolve();
    socket.on('data', (chunk: Buffer) => {
      text += chunk.toString('latin1');
      let count = 0;
      for (let end = text.indexOf('\r\n\r\n'); end >= 0; end = text.indexOf('\r\n\r\n')) {
        const target = text.slice(0, end).split(' ')[1] ?? '';
        text = text.slice(end + 4);
        count++;
        seen.set(target, (seen.get(target) ?? 0) + 1);
        turn = turn.then(() => answer(socket, target, below));
      }
      most = Math.max(most, count);
    });
    socket.on('end', () => void turn.then(() => socket.end()));
  });
  const proxy = await openProxy(t, port, { pipelined: [port] });
  const agents = Array.from({ length: options.clients }, () => new Agent({ keepAlive: true, maxSockets: 1 }));
  t.after(() => {
    for (const agent of agents) agent.destroy();
  });
  const counts = { answered: 0, left: 0, broken: 0 };
  const wrong: string[] = [];
  for (let round = 0; round < options.rounds; round++) {
    const asking = agents.filter(() => below(4) > 0);
    const results = asking.map((agent, i) => {
      const target = `/${pick(below)}/${round}-${i}-${'x'.repeat(below(40))}`;
      return ask(agent, proxy.port, target, below).then((result) => ({ target, result }));
    });
    for (const { target, result } of await Promise.all(results)) {
      if (result === 'left') counts.left++;
      else if (result === bodyOf(target) && kindOf(target) !== 'broken') counts.answered++;
      else if (kindOf(target) === 'broken') counts.broken++;
      else wrong.push(`${target}: ${String(result).slice(0, 100)}`);
    }
  }
  const repeated = [...seen.values()].filter((times) => times > 1).length;
  return { ...counts, repeated, most, wrong };
}

function pick(below: Below): Kind {
  let at = below(1000);
  for (const kind of KINDS) {
    if (at < OFTEN[kind]) return kind;
    at -= OFTEN[kind];
  }
  return 'plain';
}

/** The body of the answer, `left` if the client gave up, else what went wrong. */
function ask(agent: Agent, port: number, target: string, below: Below): Promise<string> {
  const leaves = below(50) === 0 ? below(8) : undefined;
  const pauses = below(50) === 0 ? 20 + below(200) : 0;
  return new Promise((resolve) => {
    let timer: NodeJS.Timeout | undefined;
    const asking = request({ host: '127.0.0.1', port, path: target, agent }, (response: IncomingMessage) => {
      let body = '';
      response.setEncoding('latin1').on('data', (text: string) => {
        body += text;
      });
      if (pauses > 0) {
        response.pause();
        setTimeout(() => response.resume(), pauses);
      }
      response.on('close', () => {
        clearTimeout(timer);
        resolve(
          response.complete ? (response.statusCode === 200 ? body : `${response.statusCode} ${body}`) : 'cut off',
        );
      });
    });
    asking.on('error', (error) => {
      clearTimeout(timer);
      resolve(leaves === undefined ? `error: ${error.message}` : 'left');
    });
    asking.end();
    if (leaves !== undefined) {
      timer = setTimeout(() => {
        resolve('left');
        asking.destroy();
      }, leaves);
    }
  });
}
