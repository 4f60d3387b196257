/** A terminal: bytes go straight between the WebSocket and the container's SSH session, with backpressure both ways. */
import { resizeSchema } from '../../proto/compute.ts';
import type { Socket } from '../../proto/http.ts';
import { EngineError, type Shell } from '../../proto/ports.ts';
import { dispatch, type Ref } from '../../supervision/index.ts';
import type { ComputeDeps } from './deps.ts';
import type { Connection, StreamMessage } from './streams.ts';

/** PTY of interface section 4.2. */
const PTY = { term: 'xterm-256color', rows: 24, cols: 80 } as const;
/** Most input kept for a shell that does not read, or is not open yet. */
const MAX_INPUT_BYTES = 1024 * 1024;

/** The terminal of one container. `attach` registers the connection with the container's actor. */
export function terminalConnection(
  deps: ComputeDeps,
  containerId: string,
  attach: (self: Ref<StreamMessage>) => void,
): Connection {
  let socket: Socket | undefined;
  let shell: Shell | undefined;
  let size: { cols: number; rows: number } | undefined;
  let early: Uint8Array[] = [];
  let earlyBytes = 0;

  async function open(socket: Socket, self: Ref<StreamMessage>, signal: AbortSignal): Promise<void> {
    const opened = await deps.shells.open(containerId, { ...PTY, ...size }, signal);
    if (signal.aborted) return opened.close();
    shell = opened;
    signal.addEventListener('abort', () => opened.close(), { once: true });
    if (size !== undefined) opened.resize(size.cols, size.rows);
    const { stream } = opened;
    stream.on('data', (chunk: Buffer) => {
      if (!socket.send(chunk)) stream.pause();
    });
    stream.on('drain', () => socket.resume());
    let end = { code: 1000, reason: 'session ended' };
    // An error is followed by 'close'.
    stream.on('error', (error) => {
      deps.log.debug({ containerId, err: error }, 'terminal stream failed');
      end = { code: 1012, reason: 'connection to the container lost' };
    });
    // The end of what it prints is the end of a shell, although what is typed could still be taken.
    stream.on('end', () => stream.destroy());
    stream.on('close', () => dispatch(self, { type: 'close', ...end }));
    for (const chunk of early) stream.write(chunk);
    early = [];
  }

  return {
    open(opened, self, signal) {
      socket = opened;
      open(opened, self, signal).catch((error: unknown) => {
        if (signal.aborted) return;
        deps.log.warn({ containerId, err: error }, 'terminal could not be opened');
        const reason = error instanceof EngineError ? error.message : 'the shell could not be opened';
        dispatch(self, { type: 'close', code: 1011, reason });
      });
    },
    attach,
    binary(data) {
      if (shell === undefined) {
        earlyBytes += data.byteLength;
        if (earlyBytes > MAX_INPUT_BYTES) socket?.close(1013, 'too much input');
        else early.push(data);
        return;
      }
      if (!shell.stream.writable) return;
      if (!shell.stream.write(data)) socket?.pause();
      // Not every server can stop reading a WebSocket: past the bound the session ends.
      if (shell.stream.writableLength > MAX_INPUT_BYTES) socket?.close(1013, 'too much input');
    },
    text(data) {
      const control = parseControl(data);
      if (control === undefined) {
        socket?.close(1003, 'text frames carry {"type":"resize","cols","rows"} only');
        return;
      }
      size = control;
      shell?.resize(control.cols, control.rows);
    },
    drain() {
      shell?.stream.resume();
    },
  };
}

function parseControl(text: string): { cols: number; rows: number } | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return resizeSchema.safeParse(value).data;
  } catch {
    return undefined;
  }
}
