import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { withoutQueries } from '../../lib/terminal-queries.ts';

const ESC = '\u001b';
const ST = `${ESC}\\`;
const shown = (text: string) => withoutQueries(Buffer.from(text)).toString();

test('questions to a terminal are taken out of what is shown again', () => {
  const questions = {
    'place of the cursor': `${ESC}[6n`,
    'the same, with the page': `${ESC}[?6n`,
    'its state': `${ESC}[5n`,
    'what it is': `${ESC}[c`,
    'the same, secondary': `${ESC}[>0c`,
    'the same, tertiary': `${ESC}[=c`,
    'what it is, of old': `${ESC}Z`,
    'its name': `${ESC}[>0q`,
    parameters: `${ESC}[0x`,
    'a mode': `${ESC}[?2026$p`,
    'keyboard modes': `${ESC}[?u`,
    'size of the window': `${ESC}[18t`,
    'its title': `${ESC}[21t`,
    background: `${ESC}]11;?\u0007`,
    'colours of the palette': `${ESC}]4;1;?;2;?${ST}`,
    clipboard: `${ESC}]52;c;?\u0007`,
    'a setting': `${ESC}P$qm${ST}`,
    'a capability': `${ESC}P+q544e${ST}`,
    'the word for who are you': '\u0005',
  };
  for (const [name, question] of Object.entries(questions)) assert.equal(shown(`a${question}é`), 'aé', name);
});

test('whatever else a program prints stays as it is', () => {
  const output = [
    'plain text, 6n, [6n and ?',
    `${ESC}[31mred${ESC}[0m`,
    `${ESC}[2J${ESC}[1;5H${ESC}[K`,
    `${ESC}[?1049h${ESC}[?25l`,
    `${ESC}[4 q`,
    `${ESC}[22;0t${ESC}[23;0t`,
    `${ESC}]0;a title?\u0007`,
    `${ESC}]11;#000000\u0007`,
    `${ESC}]52;c;aGVsbG8=\u0007`,
    `${ESC}[>4;2m`,
    `${ESC}[?1u`,
    `${ESC}Pq#0;2;0;0;0#0~~${ST}`,
    'whole characters: é€😀',
  ];
  for (const one of output) assert.equal(shown(one), one);
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 200 }), (bytes) => {
      const plain = Buffer.from(bytes).filter((byte) => byte !== 0x1b && byte !== 5);
      assert.deepEqual(withoutQueries(Buffer.from(plain)), Buffer.from(plain));
    }),
  );
});
