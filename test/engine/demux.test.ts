import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { EngineError, MAX_LINE_BYTES } from '../../proto/ports/engine.ts';
import { LineAssembler } from '../../transports/engines/common/log-lines.ts';
import { FrameDemuxer } from '../../transports/engines/docker/api/demux.ts';

const stamp = '2024-05-06T07:08:09.123456789Z';

function frame(stream: number, payload: Uint8Array): Buffer {
  const header = Buffer.alloc(8);
  header[0] = stream;
  header.writeUInt32BE(payload.length, 4);
  return Buffer.concat([header, payload]);
}

/** Cuts at the given places, taken modulo the length. */
function torn(bytes: Buffer, cuts: readonly number[]): Buffer[] {
  const at = [...new Set(cuts.map((cut) => cut % (bytes.length + 1)))].sort((a, b) => a - b);
  return [0, ...at].map((from, i) => bytes.subarray(from, at[i] ?? bytes.length));
}

function linesOf(chunks: readonly Buffer[]): string[] {
  const demuxer = new FrameDemuxer();
  const outputs = { 1: new LineAssembler(), 2: new LineAssembler() };
  const lines: string[] = [];
  const emit = (line: string): void => void lines.push(line);
  for (const chunk of chunks) {
    for (const piece of demuxer.push(chunk)) {
      if (piece.first) outputs[piece.stream].beginEntry();
      outputs[piece.stream].push(piece.data, emit);
    }
  }
  outputs[1].end(emit);
  outputs[2].end(emit);
  return lines;
}

function entry(text: string | Buffer, stream = 1): Buffer {
  return frame(stream, Buffer.concat([Buffer.from(`${stamp} `), Buffer.from(text)]));
}

describe('docker log stream', () => {
  it('gives the same frames however the bytes are cut', () => {
    const frames = fc.array(fc.tuple(fc.constantFrom<1 | 2>(1, 2), fc.uint8Array({ maxLength: 50 })), {
      maxLength: 12,
    });
    fc.assert(
      fc.property(frames, fc.array(fc.nat(), { maxLength: 30 }), (wanted, cuts) => {
        const demuxer = new FrameDemuxer();
        const got: { stream: number; data: Buffer[] }[] = [];
        for (const chunk of torn(Buffer.concat(wanted.map(([stream, data]) => frame(stream, data))), cuts)) {
          for (const piece of demuxer.push(chunk)) {
            if (piece.first) got.push({ stream: piece.stream, data: [] });
            got.at(-1)?.data.push(piece.data);
          }
        }
        assert.ok(demuxer.whole);
        assert.deepEqual(
          got.map(({ stream, data }) => [stream, Buffer.concat(data).toString('hex')]),
          wanted
            .filter(([, data]) => data.length > 0)
            .map(([stream, data]) => [stream, Buffer.from(data).toString('hex')]),
        );
      }),
    );
  });

  it('gives the same lines however the bytes are cut', () => {
    const texts = fc.array(
      fc.string({ unit: 'grapheme', maxLength: 40 }).filter((t) => !/[\r\n]/.test(t)),
      { maxLength: 10 },
    );
    fc.assert(
      fc.property(texts, fc.array(fc.nat(), { maxLength: 30 }), (wanted, cuts) => {
        const bytes = Buffer.concat(wanted.map((text) => entry(`${text}\n`)));
        assert.deepEqual(
          linesOf(torn(bytes, cuts)),
          wanted.map((text) => `${stamp} ${Buffer.from(text).toString('utf8')}`),
        );
      }),
    );
  });

  it('refuses headers that cannot be', () => {
    const wrong = [
      Buffer.from([1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]),
      Buffer.from([9, 0, 0, 0, 0, 0, 0, 1]),
      Buffer.from([1, 1, 0, 0, 0, 0, 0, 1]),
      Buffer.from([3, 0, 0, 0, 0, 0, 0, 1]),
      Buffer.from('{"message":"x"}'),
    ];
    for (const bytes of wrong) {
      assert.throws(() => [...new FrameDemuxer().push(bytes)], EngineError);
    }
  });

  it('knows that it stands inside a frame', () => {
    const demuxer = new FrameDemuxer();
    assert.deepEqual([...demuxer.push(frame(1, Buffer.from('abc')).subarray(0, 9))].length, 1);
    assert.equal(demuxer.whole, false);
  });

  it('joins the pieces Docker cuts a long line into', () => {
    const later = '2024-05-06T07:08:09.123456999Z';
    const pieces = [
      entry('a'.repeat(16384)),
      frame(1, Buffer.from(`${later} bbb`)),
      frame(1, Buffer.from(`${later} c\n`)),
    ];
    assert.deepEqual(linesOf(pieces), [`${stamp} ${'a'.repeat(16384)}bbbc`]);
  });

  it('keeps both outputs apart while their pieces alternate', () => {
    assert.deepEqual(linesOf([entry('out ', 1), entry('err ', 2), entry('1\n', 1), entry('2\n', 2)]), [
      `${stamp} out 1`,
      `${stamp} err 2`,
    ]);
  });

  it('splits a line past the bound at a character, and holds no more than that', () => {
    const text = `${'x'.repeat(MAX_LINE_BYTES - 1)}€${'y'.repeat(10)}`;
    const lines = linesOf([entry(`${text}\nnext\n`)]);
    assert.equal(lines[0], `${stamp} ${'x'.repeat(MAX_LINE_BYTES - 1)}`);
    assert.equal(lines[1], `${stamp} €${'y'.repeat(10)}`);
    assert.equal(lines.length, 3);
    const endless = linesOf(
      Array.from({ length: 20 }, () => frame(1, Buffer.concat([Buffer.from(`${stamp} `), Buffer.alloc(16384, 'z')]))),
    );
    assert.deepEqual(
      endless.map((line) => line.length - stamp.length - 1),
      [65536, 65536, 65536, 65536, 65536],
    );
  });

  it('replaces what is not UTF-8, drops the carriage return, keeps other control characters', () => {
    assert.deepEqual(linesOf([entry(Buffer.from([0x61, 0xff, 0x62, 0x0d, 0x0a]))]), [`${stamp} a\ufffdb`]);
    assert.deepEqual(linesOf([entry('\u001b[1mx\u0000\n')]), [`${stamp} \u001b[1mx\u0000`]);
  });

  it('emits what is left without a newline, and empty lines', () => {
    assert.deepEqual(linesOf([entry('\n'), entry('end')]), [`${stamp} `, `${stamp} end`]);
    assert.deepEqual(linesOf([frame(1, Buffer.from('short'))]), [' short']);
  });
});
