/** A file of variables, as `troupe env set --file` and `troupe run --env-file` read it. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { parseEnvFile } from '../../cmd/client/env-file.ts';

const read = (text: string) => parseEnvFile(text, '.env').values;

describe('a file of variables', () => {
  test('has values as docker compose and dotenv read them alike', () => {
    const cases: [string, string][] = [
      ['A=b', 'b'],
      ['  A = b  ', 'b'],
      ['export A=b', 'b'],
      ['A: b', 'b'],
      ['A=', ''],
      ['A=""', ''],
      ['A=a b  # words', 'a b'],
      ['A=abc#123', 'abc#123'],
      ['A=#FF0000', '#FF0000'],
      ['A=https://x/y#frag', 'https://x/y#frag'],
      ['A=b=c==', 'b=c=='],
      ['A="x # y" # words', 'x # y'],
      ["A='x # y'# words", 'x # y'],
      ['A="a\\nb\\t\\"c\\" \\\\ \\d"', 'a\nb\t"c" \\ \\d'],
      ["A='a\\nb'", 'a\\nb'],
      ['A=a\\nb', 'a\\nb'],
      ['A="one\n two \n#three"', 'one\n two \n#three'],
      ["A='-----\r\nkey\r\n-----'", '-----\nkey\n-----'],
      ['A=it\'s 5" long', 'it\'s 5" long'],
      ['A={"a": [1]}', '{"a": [1]}'],
      ['A=1\nA=2', '2'],
      ['\uFEFF# words\n\nA=b\r\n', 'b'],
    ];
    for (const [text, value] of cases) assert.deepEqual(read(text), { A: value }, text);
    assert.deepEqual(read('A="x\ny"\nB=z'), { A: 'x\ny', B: 'z' });
  });

  test('names the line that is none, and shows nothing of it', () => {
    const cases: [string, RegExp][] = [
      ['A=1\n\nNOEQ\nB=1', /^\.env, line 3, is no variable such as PORT=8080\.$/],
      ['export A', /^\.env, line 1, is no variable/],
      ['my-name=1', /^\.env, line 1, is no variable/],
      ['1A=1', /^\.env, line 1, is no variable/],
      ['A="1\n2"\n=canary', /^\.env, line 3, is no variable/],
      ['A=1\nB="canary\nC=1', /^\.env, line 2, has a quote that is not closed\.$/],
      ["A='canary\\'", /^\.env, line 1, has a quote that is not closed\.$/],
      ['A="x"canary', /^\.env, line 1, goes on after the closing quote\.$/],
      ['A= # canary', /^\.env, line 1, has a # that some take for its value/],
    ];
    for (const [text, said] of cases)
      assert.throws(
        () => read(text),
        (error: Error) => said.test(error.message) && !error.message.includes('canary'),
        text,
      );
  });

  test('keeps what others put something in the place of, and says so', () => {
    const { values, notes } = parseEnvFile('A=$B\nC="x $D"\nE=\'$F\'\nG=`id`\nH=a`b`c\nI=1$\n', '.env');
    assert.deepEqual(values, { A: '$B', C: 'x $D', E: '$F', G: '`id`', H: 'a`b`c', I: '1$' });
    assert.deepEqual(notes, [
      '$ stands for itself, and for no other variable, in A, C.',
      'The backticks are part of the value of G.',
    ]);
  });

  test('is read in a time that grows with its size alone', () => {
    assert.throws(() => read(`A="${'x\n'.repeat(300_000)}`), /line 1, has a quote that is not closed/);
    assert.throws(() => read(`A="${'\\'.repeat(600_001)}`), /line 1, has a quote that is not closed/);
  });
});
