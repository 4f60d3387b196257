/** A mail server: real SMTP (RFC 5321) on a socket, as far as a client that submits needs it, and STARTTLS. */
import assert from 'node:assert/strict';
import { createServer, type Socket } from 'node:net';
import { TLSSocket } from 'node:tls';
import type { Cleanup } from '../temp.ts';

/** A mail as it was taken. */
export interface ReceivedMail {
  readonly to: string;
  /** Names in lower case; folded lines are joined. */
  readonly headers: ReadonlyMap<string, string>;
  /** The body, decoded. */
  readonly text: string;
  /** Everything, as it came. */
  readonly raw: string;
  readonly isTls: boolean;
}

interface MailServerOptions {
  /** The answer to the n-th mail, beginning at 1; '250 ok' takes it. `hang`: none is given. */
  readonly answer?: (mail: ReceivedMail, n: number) => string;
  readonly tls?: { readonly key: string; readonly cert: string };
}

/** Starts one on a free port of 127.0.0.1. */
export async function startMailServer(t: Cleanup, { answer = () => '250 ok', tls }: MailServerOptions = {}) {
  const mails: ReceivedMail[] = [];
  const sockets = new Set<Socket>();
  const talk = (socket: Socket, isTls: boolean): void => {
    let [to, data, isData, rest] = ['', '', false, ''];
    const say = (line: string) => void socket.write(`${line}\r\n`);
    const end = () => {
      const mail = parsed(to, data, isTls);
      mails.push(mail);
      [isData, data] = [false, ''];
      const given = answer(mail, mails.length);
      if (given !== 'hang') say(given);
    };
    const command = (line: string): void => {
      if (isData) {
        if (line === '.') end();
        else data += `${line.startsWith('.') ? line.slice(1) : line}\r\n`;
        return;
      }
      const verb = line.slice(0, 4).toUpperCase();
      if (verb === 'EHLO') say(tls !== undefined && !isTls ? '250-here\r\n250 STARTTLS' : '250 here');
      else if (verb === 'STAR' && tls !== undefined) {
        say('220 go on');
        socket.removeAllListeners('data');
        talk(new TLSSocket(socket, { isServer: true, ...tls }), true);
      } else if (verb === 'RCPT') {
        to = /<(.*)>/.exec(line)?.[1] ?? '';
        say('250 ok');
      } else if (verb === 'DATA') {
        isData = true;
        say('354 go on');
      } else if (verb === 'QUIT') {
        say('221 bye');
        socket.end();
      } else say(['HELO', 'MAIL', 'RSET', 'NOOP'].includes(verb) ? '250 ok' : '502 no');
    };
    socket.on('error', () => undefined);
    socket.on('data', (chunk: Buffer) => {
      const lines = (rest + chunk.toString('latin1')).split('\r\n');
      rest = lines.pop() ?? '';
      for (const line of lines) command(line);
    });
  };
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
    socket.write('220 here\r\n');
    talk(socket, false);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(async () => {
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => void server.close(resolve));
  });
  const address = server.address();
  assert.ok(typeof address === 'object' && address !== null);
  return { mails, port: address.port, url: `smtp://127.0.0.1:${address.port}` };
}

function parsed(to: string, raw: string, isTls: boolean): ReceivedMail {
  const at = raw.indexOf('\r\n\r\n');
  const lines = raw
    .slice(0, at)
    .replace(/\r\n[ \t]+/g, ' ')
    .split('\r\n');
  const headers = new Map(
    lines.map((line) => {
      const colon = line.indexOf(':');
      return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()];
    }),
  );
  const body = raw.slice(at + 4);
  const encoding = headers.get('content-transfer-encoding');
  const bytes =
    encoding === 'base64'
      ? Buffer.from(body, 'base64')
      : Buffer.from(encoding === 'quoted-printable' ? unquoted(body) : body, 'latin1');
  return { to, headers, text: bytes.toString().replaceAll('\r\n', '\n'), raw, isTls };
}

function unquoted(text: string): string {
  return text
    .replace(/=\r\n/g, '')
    .replace(/=([0-9A-F]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
}
