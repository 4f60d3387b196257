/** A session of a client (RFC 4254 section 6): what it asks for is asked of the container in its place. */
import type { ClientChannel, PseudoTtyOptions, ServerChannel, Session } from 'ssh2';
import { closeUnstarted, type RawRequest, takesData } from './internals.ts';
import { type LoginConnections, relaySession } from './relay.ts';

/** What a session needs of its login. */
interface SessionDeps extends LoginConnections {
  /** What the request that is being dealt with said byte for byte. */
  readonly raw: () => RawRequest;
  /** The client lets its agent be used. */
  readonly onAgent: () => void;
}

const MAX_VARIABLES = 64;
const MAX_VARIABLE = 8192;
const VARIABLE = /^[A-Za-z_][A-Za-z0-9_]{0,255}$/;
const SIGNAL = /^(?:ABRT|ALRM|FPE|HUP|ILL|INT|KILL|PIPE|QUIT|SEGV|TERM|USR1|USR2)$/;
const TERM = /^[!-~]{1,64}$/;
const SUBSYSTEM = /^[!-~]{1,64}$/;
/** As ssh(1) does, when the fault is not the command's. */
const FAILED = 255;

/** A callback as ssh2 calls it. */
type Opened = (error: Error | undefined, channel: ClientChannel) => void;

/** Serves one. Which variables and subsystems there are is decided by the container's own server. */
export function serveSession(session: Session, deps: SessionDeps): void {
  const { client, container, sides, raw, onAgent } = deps;
  const env: Record<string, string> = {};
  let pty: PseudoTtyOptions | undefined;
  let wantsAgent = false;
  let isStarted = false;
  let isClosed = false;
  let inside: ClientChannel | undefined;
  /** The window was changed before the container had the terminal. */
  let isResized = false;

  session.on('env', (accept, reject, { key, val }: { key: string; val: string }) => {
    const fits = VARIABLE.test(key) && val.length <= MAX_VARIABLE && Object.keys(env).length < MAX_VARIABLES;
    if (!fits) return reject?.();
    env[key] = val;
    accept?.();
  });
  session.on('pty', (accept, _reject, info) => {
    const { cols, rows, width, height } = info;
    pty = { term: termOf(info), cols, rows, width, height };
    // Declared for names only, but encoded ones are taken as they are.
    Object.assign(pty, { modes: raw().modes });
    accept?.();
  });
  session.on('window-change', (accept, _reject, { cols, rows, width, height }) => {
    if (pty !== undefined) Object.assign(pty, { cols, rows, width, height });
    isResized = true;
    if (inside !== undefined && sides.container.room(inside) > 0) inside.setWindow(rows, cols, height, width);
    accept?.();
  });
  session.on('signal', (accept, reject, { name }: { name: string }) => {
    if (!SIGNAL.test(name)) return reject?.();
    if (inside !== undefined && sides.container.room(inside) > 0) inside.signal(name);
    accept?.();
  });
  session.on('auth-agent', (accept) => {
    wantsAgent = true;
    onAgent();
    accept?.();
  });
  session.on('close', () => {
    isClosed = true;
    if (!isStarted) closeUnstarted(client, session);
  });

  /** Takes the request at once, as ssh2 wants it: a client that has nothing to say may have ended its half already. */
  const begin = (accept: () => ServerChannel, ask: (opened: Opened) => void): void => {
    const outside: ServerChannel | undefined = accept();
    if (outside === undefined) return;
    isStarted = true;
    outside.on('error', () => {});
    outside.stderr.on('error', () => {});
    const open = (): void => {
      try {
        ask(opened);
      } catch {
        // The container's connection ended in this moment.
        refuse(outside, 'its SSH server is gone.');
      }
    };
    const opened: Opened = (error, channel) => {
      if (error && wantsAgent) {
        // Most likely its server forwards no agents: whoever wants in gets in without.
        wantsAgent = false;
        return open();
      }
      if (error) return refuse(outside, error.message);
      inside = channel;
      if (isClosed) return drop(channel);
      if (pty !== undefined && isResized) {
        channel.setWindow(pty.rows ?? 24, pty.cols ?? 80, pty.height ?? 0, pty.width ?? 0);
      }
      void relaySession(outside, channel, sides);
    };
    open();
  };
  const options = () => ({
    env,
    ...(pty === undefined ? {} : { pty }),
    ...(wantsAgent ? { agentForward: true } : {}),
  });
  session.on('shell', (accept) =>
    begin(accept, (opened) => {
      const { pty: window, ...rest } = options();
      if (window === undefined) container.shell(false, rest, opened);
      else container.shell(window, rest, opened);
    }),
  );
  session.on('exec', (accept, _reject, { command: text }: { command: string }) => {
    const { command } = raw();
    begin(accept, (opened) => {
      // Declared for text only, but bytes are taken as they are.
      Reflect.apply(container.exec, container, [command ?? text, options(), opened]);
    });
  });
  session.on('subsystem', (accept, reject, { name }: { name: string }) => {
    if (!SUBSYSTEM.test(name)) return reject?.();
    begin(accept, (opened) => container.subsys(name, opened));
  });
}

/** Ends a client's channel with why the container does not serve it. */
function refuse(outside: ServerChannel, why: string): void {
  if (takesData(outside)) outside.stderr.write(`The container refused: ${why}\r\n`);
  outside.exit(FAILED);
  outside.eof();
  outside.close();
}

/** Ends a container's channel whose client has left. */
function drop(channel: ClientChannel): void {
  channel.on('error', () => {}).resume();
  channel.stderr.on('error', () => {}).resume();
  channel.close();
}

/** The terminal's name: declared nowhere, and sent by all. */
function termOf(info: object): string {
  const term = 'term' in info && typeof info.term === 'string' ? info.term : '';
  return TERM.test(term) ? term : 'xterm-256color';
}
