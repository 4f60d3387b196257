/**
 * Do the gateway's readers hold against ten million inputs each? Inputs are mutations of good and bad ones; each is read whole and cut
 * at random places, and both must end alike, without a crash, a hang or bytes kept beyond the bound.
 *
 * `npm run soak -- fuzz [RUNS [SEED]]`: default 10,000,000 runs each.
 */
import { cut, readChunks, readHeads, readHello, readProtocol } from '../support/gateway/incremental-readers.ts';

const runs = Number(process.argv[2] ?? 10_000_000);
const seed = Number(process.argv[3] ?? Date.now() % 2 ** 31);

/** A small generator (xorshift32): the same seed gives the same inputs. */
let state = seed | 1;
function random(below: number): number {
  state ^= state << 13;
  state ^= state >>> 17;
  state ^= state << 5;
  return (state >>> 0) % below;
}

const latin1 = (text: string) => Buffer.from(text, 'latin1');
const heads = [
  'GET /a?b HTTP/1.1\r\nHost: a.test\r\n\r\n',
  'POST / HTTP/1.1\r\nHost: a.test:80\r\nContent-Length: 5\r\nConnection: close, x\r\n\r\nhello',
  'POST http://a.test/ HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n',
  'GET / HTTP/1.1\r\nHost: [::1]:8\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n',
  'HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc',
  'HTTP/1.0 404 Not Found\r\nTransfer-Encoding: chunked\r\nX: y\r\n\r\n',
].map(latin1);
const chunks = [
  '5\r\nhello\r\n0\r\n\r\n',
  'a;x=y\r\n0123456789\r\n0\r\nX: y\r\n\r\nrest',
  '1\r\na\r\n1 ;b\r\nc\r\n0\r\n\r\n',
].map(latin1);
const hellos = [
  '1603010042' +
    '0100003e' +
    '0303' +
    '07'.repeat(32) +
    '00' +
    '00021301' +
    '0100' +
    '0013' +
    '0000000f000d00000a' +
    '612e62632e746573742e',
  '160301003d' +
    '01000039' +
    '0303' +
    '07'.repeat(32) +
    '00' +
    '00021301' +
    '0100' +
    '000e' +
    '0010000a000808687474702f312e31',
  `16030100040100002816030100280303${'07'.repeat(32)}00000213010100`,
].map((hex) => Buffer.from(hex, 'hex'));
const firsts = ['SSH-2.0-OpenSSH_9.2\r\n', 'GET / HTTP/1.1', '\x16\x03\x01\x00', 'M-SEARCH * HTTP/1.1'].map(latin1);

const SPICE = [
  '\r\n',
  '\n',
  '\r',
  '\0',
  ' ',
  '\t',
  ':',
  ';',
  '0',
  'chunked',
  'Content-Length: 1\r\n',
  '\x7f',
  '\xff',
  '\x0b',
  ',',
  '0x',
  '-',
].map(latin1);

/** A copy of `input` with up to four things changed: a bit, a byte, a part left out, doubled, moved, or something put in. */
function mutate(input: Buffer): Buffer {
  let bytes: Buffer = Buffer.from(input);
  for (let change = random(5); change > 0; change--) {
    const at = random(bytes.length + 1);
    const to = Math.min(bytes.length, at + random(8));
    switch (random(6)) {
      case 0:
        if (at < bytes.length) bytes[at] = (bytes[at] ?? 0) ^ (1 << random(8));
        break;
      case 1:
        if (at < bytes.length) bytes[at] = random(256);
        break;
      case 2:
        bytes = Buffer.concat([bytes.subarray(0, at), bytes.subarray(to)]);
        break;
      case 3:
        bytes = Buffer.concat([bytes.subarray(0, to), bytes.subarray(at)]);
        break;
      case 4:
        bytes = Buffer.concat([bytes.subarray(0, at), SPICE[random(SPICE.length)] ?? bytes, bytes.subarray(at)]);
        break;
      default:
        bytes = bytes.subarray(0, at);
    }
  }
  return bytes;
}

process.stdout.write(`seed ${seed}\n`);
for (const [name, corpus, read] of [
  ['heads', heads, readHeads],
  ['chunked bodies', chunks, readChunks],
  ['ClientHellos', hellos, readHello],
  ['first bytes', firsts, readProtocol],
] as const) {
  const began = performance.now();
  const outcomes = new Map<string, number>();
  let longest = 0;
  for (let run = 0; run < runs; run++) {
    const input = mutate(corpus[random(corpus.length)] ?? Buffer.alloc(0));
    const before = performance.now();
    const whole = read([input]);
    longest = Math.max(longest, performance.now() - before);
    const pieces = cut(input, [random(1000) / 1000, random(1000) / 1000, random(1000) / 1000]);
    const again = read(pieces);
    if (again !== whole) {
      process.stdout.write(
        `${name}: ${input.toString('hex')}\nwhole ${whole}\ncut   ${again} (${pieces.map(({ length }) => length)})\n`,
      );
      process.exit(1);
    }
    const kind = whole.split(/[ ,{[]/, 1)[0] ?? '';
    outcomes.set(kind, (outcomes.get(kind) ?? 0) + 1);
  }
  const seconds = (performance.now() - began) / 1000;
  const kinds = [...outcomes].map(([kind, count]) => `${kind || 'read'} ${count}`).join(', ');
  process.stdout.write(
    `${runs.toLocaleString('en')} ${name}: ${seconds.toFixed(0)} s, longest ${longest.toFixed(1)} ms; ${kinds}\n`,
  );
}
