/**
 * What `node:test` is to a test file in a lane (lane.mjs): what the file declares while it loads is kept, so that the lane can run it as
 * one suite, with its own hooks. What is called later, inside tests and hooks, goes to node:test at once.
 */
import * as nodeTest from 'node:test';

/** Of the file that loads now; undefined when none does. */
let declared;

export const { mock } = nodeTest;
export const test = declaring(nodeTest.test, 'skip', 'todo', 'only');
export const it = test;
export const describe = declaring(nodeTest.describe, 'skip', 'todo', 'only');
export const suite = describe;
export const before = declaring(nodeTest.before);
export const after = declaring(nodeTest.after);
export const beforeEach = declaring(nodeTest.beforeEach);
export const afterEach = declaring(nodeTest.afterEach);

/** Runs `load`, and returns what it declared, as functions that declare it to node:test. */
export async function collect(load) {
  const own = [];
  declared = own;
  try {
    await load();
  } finally {
    declared = undefined;
  }
  return own;
}

function declaring(declare, ...variants) {
  const deferred = (...args) => {
    if (declared === undefined) return declare(...args);
    declared.push(() => declare(...args));
    return Promise.resolve();
  };
  for (const variant of variants) deferred[variant] = declaring(declare[variant]);
  return deferred;
}
