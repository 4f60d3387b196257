/** Pictures of browsers as grey grids. */
import assert from 'node:assert/strict';
import { inflateSync } from 'node:zlib';

/** Rows of cells, each the mean grey of its part of a picture, from 0 to 255. */
export type GreyGrid = readonly (readonly number[])[];

/** Bytes of a pixel, by the colour type: RGB, and RGB with alpha. */
const CHANNELS: ReadonlyMap<number, number> = new Map([
  [2, 3],
  [6, 4],
]);

/** Scales a PNG as Chromium writes it, of 8 bits a channel and not interlaced, down to cells of about `side` pixels. */
export function greyGrid(png: Buffer, side: number): GreyGrid {
  const { width, height, channels, data } = headAndData(png);
  const [columns, rows] = [Math.round(width / side), Math.round(height / side)];
  const sums = Array.from({ length: rows }, () => Array.from({ length: columns }, () => 0));
  const counts = sums.map((row) => row.map(() => 0));
  const stride = width * channels;
  const line = Buffer.alloc(stride);
  const above = Buffer.alloc(stride);
  for (let y = 0; y < height; y++) {
    const at = y * (stride + 1);
    data.copy(line, 0, at + 1, at + 1 + stride);
    unfilter(line, { above, channels, filter: data[at] ?? 0 });
    line.copy(above);
    const row = Math.floor((y * rows) / height);
    for (let x = 0; x < width; x++) {
      const column = Math.floor((x * columns) / width);
      const [red = 0, green = 0, blue = 0] = line.subarray(x * channels, x * channels + 3);
      const [sum, count] = [sums[row], counts[row]];
      assert.ok(sum !== undefined && count !== undefined);
      sum[column] = (sum[column] ?? 0) + 0.299 * red + 0.587 * green + 0.114 * blue;
      count[column] = (count[column] ?? 0) + 1;
    }
  }
  return sums.map((row, y) => row.map((sum, x) => sum / (counts[y]?.[x] ?? 1)));
}

function headAndData(png: Buffer) {
  const parts: Buffer[] = [];
  for (let at = 8; at < png.length; ) {
    const length = png.readUInt32BE(at);
    if (png.toString('latin1', at + 4, at + 8) === 'IDAT') parts.push(png.subarray(at + 8, at + 8 + length));
    at += 12 + length;
  }
  const channels = CHANNELS.get(png[25] ?? -1);
  assert.ok(channels !== undefined && png[24] === 8 && png[28] === 0, 'not a PNG as Chromium writes it');
  return {
    width: png.readUInt32BE(16),
    height: png.readUInt32BE(20),
    channels,
    data: inflateSync(Buffer.concat(parts)),
  };
}

interface FilteredLine {
  readonly above: Buffer;
  readonly channels: number;
  readonly filter: number;
}

/** In place: RFC 2083, section 6. */
function unfilter(line: Buffer, { above, channels, filter }: FilteredLine): void {
  if (filter === 0) return;
  for (let i = 0; i < line.length; i++) {
    const left = i < channels ? 0 : (line[i - channels] ?? 0);
    const up = above[i] ?? 0;
    const corner = i < channels ? 0 : (above[i - channels] ?? 0);
    const guess = [0, left, up, (left + up) >> 1, paeth(left, up, corner)][filter] ?? 0;
    line[i] = ((line[i] ?? 0) + guess) & 255;
  }
}

function paeth(left: number, up: number, corner: number): number {
  const guess = left + up - corner;
  const [byLeft, byUp, byCorner] = [Math.abs(guess - left), Math.abs(guess - up), Math.abs(guess - corner)];
  if (byLeft <= byUp && byLeft <= byCorner) return left;
  return byUp <= byCorner ? up : corner;
}
