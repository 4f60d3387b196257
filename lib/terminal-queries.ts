/**
 * Questions to a terminal: it answers as if its user had typed. From xterm's control sequences (ctlseqs): reports of
 * state and cursor, of what it is, of modes, settings, colours, the clipboard and the window.
 */
const QUERIES = new RegExp(
  [
    String.raw`\x05|\x1bZ`,
    String.raw`\x1b\[[?>=]?[\d;]*[cn]|\x1b\[[01]?x|\x1b\[\?u`,
    String.raw`\x1b\[\??[\d;]*\$p|\x1b\[>\d*q|\x1b\[(?:1[1-9]|2[01])(?:;\d*)*t`,
    String.raw`\x1b\](?:52;\w*;\?|[\d;]*\?(?:;[\d;]*\?)*)(?:\x07|\x1b\\)`,
    String.raw`\x1bP[$+]q[^\x1b\x07]*(?:\x07|\x1b\\)`,
  ].join('|'),
  'g',
);

/**
 * Output of a terminal to be shown once more, without the questions in it: they were answered when they were asked, and
 * another answer would be typed into whatever runs now.
 */
export function withoutQueries(output: Buffer): Buffer {
  if (!output.includes(0x1b) && !output.includes(0x05)) return output;
  return Buffer.from(output.toString('latin1').replace(QUERIES, ''), 'latin1');
}
