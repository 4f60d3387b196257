import type { Log } from '../proto/ports/log.ts';
import { Cell } from './cell/cell.ts';
import { DeadLetters } from './cell/dead-letters.ts';
import { KindStats, SystemCore } from './cell/kind-stats.ts';
import { joinLifecycle } from './cell/lifecycle.ts';
import { queueFor } from './cell/run-queue.ts';
import { Watchdog } from './cell/watchdog.ts';
import { atLeast } from './errors.ts';
import type { SystemRef } from './ref.ts';
import { safeTracer, tracedLog } from './tracing.ts';
import type { SystemOptions } from './types.ts';

joinLifecycle();

const silent: Log = {
  debug: () => {},
  info: () => {},
  warn: () => {},
  error: () => {},
  child: () => silent,
};

const LONG_HANDLER_MS = 10_000;

/**
 * Makes a system: the root under which actors are spawned. It keeps no process alive; `stop` ends all actors in it.
 * Throws SpawnError for a bad option.
 */
export function start(options: SystemOptions = {}): SystemRef {
  const longHandlerMs = atLeast(1, options.longHandlerMs ?? LONG_HANDLER_MS, 'longHandlerMs');
  const tracer = options.tracer === undefined ? undefined : safeTracer(options.tracer);
  const plainLog = safeLog(options.log ?? silent);
  const log = tracer === undefined ? plainLog : tracedLog(plainLog);
  const letters = new DeadLetters(log, options.onDeadLetter?.bind(options));
  const core = new SystemCore({
    name: options.name ?? 'system',
    log,
    letters,
    queue: queueFor(options.clock, options.schedule),
    random: options.random?.bind(options) ?? (() => Math.random()),
    tracer,
    freezesMessages: options.freezeMessages === true,
    pace: atLeast(1, options.pace ?? 1, 'pace'),
  });
  core.messageType = options.messageType?.bind(options);
  core.onIllegalFlags = options.onIllegalFlags?.bind(options);
  core.onGivingUp = options.onGivingUp?.bind(options);
  // A kind of its own, outside the numbers: the root is no actor of anyone's.
  const kind = new KindStats('system', core);
  // The root handles no message; what its children escalate stops them. A cell like any other: the engine then meets
  // one shape of cell only, and does not forget it while a system has no actors.
  const root = new Cell(
    undefined,
    core.name,
    kind,
    (_state, msg) => core.letters.add(`${core.name}://`, 'system', 'not_found', msg),
    {},
    undefined,
  );
  // On a clock of a test its timer would be one that is always there.
  const isWatched = options.clock === undefined || options.longHandlerMs !== undefined;
  if (options.log !== undefined && isWatched) core.watchdog = new Watchdog(root, longHandlerMs);
  if (!isSystemRef(root)) throw new TypeError('a root without parents is a system');
  return root;
}

function isSystemRef(cell: Cell): cell is Cell & SystemRef {
  return cell.isSystem;
}

/** A log whose failure is nobody's crash. */
function safeLog(log: Log): Log {
  const guard =
    (level: 'debug' | 'info' | 'warn' | 'error') =>
    (fields: object, message: string): void => {
      try {
        log[level](fields, message);
      } catch {
        // Nowhere left to say it.
      }
    };
  return {
    debug: guard('debug'),
    info: guard('info'),
    warn: guard('warn'),
    error: guard('error'),
    child: (fields) => {
      try {
        return safeLog(log.child(fields));
      } catch {
        return silent;
      }
    },
  };
}
