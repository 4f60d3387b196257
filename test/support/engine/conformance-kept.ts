import assert from 'node:assert/strict';
import { it } from 'node:test';
import { KeptCommandError } from '../../../proto/ports/kept-command.ts';
import { keptCommands } from '../../../transports/engines/common/kept-commands.ts';
import { seeCommand } from '../exec/kept-command.ts';
import { rejectsWith, type Suite } from './conformance-suite.ts';
import { eventually } from './eventually.ts';

const LINES = 30_000;
const some = '[ $((i % 1000)) = 0 ] && sleep 0.1';
const COUNT = `i=0; while [ $i -lt ${LINES} ]; do i=$((i+1)); echo $i; ${some}; done; cat; echo end >&2; exit 7`;
const COUNTED = Array.from({ length: LINES }, (_, at) => `${at + 1}\n`).join('');

const script = (text: string) => ({ start: { words: ['/bin/sh', '-c', text], terminal: undefined } });

const isGone = (error: unknown) => error instanceof KeptCommandError && error.code === 'gone';

/** That commands can be kept in the containers of an engine, whose image has perl. */
export function keptConformance(suite: () => Suite): void {
  it('keeps a command whose connection is cut, for another process: its output, its input and its exit code', async () => {
    const { engine, under } = suite();
    const id = await suite().started();
    const first = await seeCommand(keptCommands(engine, under.commandFolder), { containerId: id, ...script(COUNT) });
    await eventually(() => assert.ok(first.cursor() > 20_000, 'too little yet'));
    await under.cut();
    const other = await under.again();
    const since = first.cursor();
    const second = await seeCommand(keptCommands(other, under.commandFolder), { containerId: id, since });
    await first.over();
    assert.ok(since < COUNTED.length, 'in the middle');
    second.command.write(Buffer.alloc(200_000, 'input'));
    second.command.endInput();
    assert.equal(await second.exit(), 7);
    assert.equal(second.of(2), 'end\n');
    const all = first.of(1).slice(0, since) + second.of(1);
    assert.ok(all === COUNTED + Buffer.alloc(200_000, 'input').toString(), 'all of it once, in order');
    second.command.cancel();
    const see = () => seeCommand(keptCommands(other, under.commandFolder), { containerId: id });
    await eventually(() => assert.rejects(see(), isGone));
    await other.close();
    await engine.remove(id);
  });

  it('ends a kept command that is cancelled, and all kept commands with their container', async () => {
    const { engine, under } = suite();
    const id = await suite().started();
    const commands = keptCommands(engine, under.commandFolder);
    const see = (name: string, text?: string) =>
      seeCommand(commands, { containerId: id, name, lingerMs: 2000, ...(text === undefined ? {} : script(text)) });
    // What is kept outside of containers outlives them.
    const isInside = under.commandFolder === undefined;
    const file = isInside ? '/root/dropped' : `${under.commandFolder}-dropped`;
    const trapped = await see('two', `trap 'echo > ${file}; exit' HUP; echo ready; while :; do sleep 0.1; done`);
    await eventually(() => assert.equal(trapped.all(), 'ready\n'));
    trapped.command.cancel();
    await eventually(() => assert.rejects(see('two'), isGone));
    if (isInside) await eventually(async () => assert.notEqual(await under.readFile(id, file), undefined));
    const stopped = await see('three', 'sleep 1000');
    await engine.stop(id, 1);
    await stopped.over();
    await rejectsWith(see('three'), 'not_running');
    if (isInside) {
      await engine.start(id, []);
      await eventually(() => assert.rejects(see('three'), isGone));
    }
    await engine.remove(id);
  });
}
