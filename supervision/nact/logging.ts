/** Where the log of nact's actors goes. */
import { SpawnError } from '../common/errors.ts';
import { LogLevel, type LogMsg } from './logger.ts';
import type { NactSystem } from './nact-system.ts';
import { type ActorSystemReference, NactRef, Nobody, pathOf } from './references.ts';
import { spawnStateless } from './verbs.ts';

const LEVEL_NAMES = Object.keys(LogLevel);

/** Makes the logging actor of a system. */
export type LoggingEngine = (system: ActorSystemReference) => NactRef<LogMsg>;

/**
 * A plugin of `start`: `ctx.log`, and the crashes of actors, go to the actor that `engine` makes. `start` throws
 * SpawnError `invalid` when it makes none.
 */
export function configureLogging(engine: LoggingEngine | NactRef<LogMsg>): (system: NactSystem) => void {
  return (system) => {
    const logger = typeof engine === 'function' ? engine(system.reference) : engine;
    if (!(logger instanceof NactRef)) throw new SpawnError('invalid', 'a logging engine gives the ref of its actor');
    system.logTo(logger);
  };
}

/** A logging engine that logs nothing. nact takes it as `logNothing`; what it gives will do, too. */
export function logNothing(): NactRef<LogMsg> {
  return new Nobody();
}

/** What lines are written with; a missing level takes the one below it. */
export type ConsoleProxy = Partial<
  Record<'log' | 'trace' | 'debug' | 'info' | 'warn' | 'error' | 'critical', (line: string) => void>
>;

interface ConsoleLoggerProps {
  readonly consoleProxy?: ConsoleProxy;
  readonly formatter?: (entry: LogMsg) => string;
  /** Of the logging actor. Default `console-logger`. */
  readonly name?: string;
}

/** A logging engine that writes each entry to the console, as one line unless `formatter` says otherwise. */
export function logToConsole({ consoleProxy, formatter, name }: ConsoleLoggerProps = {}): LoggingEngine {
  const proxy: ConsoleProxy = consoleProxy ?? globalThis.console;
  const writers = [proxy.trace ?? proxy.log];
  for (const level of ['debug', 'info', 'warn', 'error', 'critical'] as const) {
    writers.push(proxy[level] ?? writers.at(-1));
  }
  return (system) =>
    spawnStateless<LogMsg>(
      system,
      (entry) => {
        const level =
          entry.type === 'trace' ? entry.level : entry.type === 'exception' ? LogLevel.ERROR : LogLevel.INFO;
        writers[level - LogLevel.TRACE]?.call(proxy, formatter?.(entry) ?? lineOf(entry));
      },
      name ?? 'console-logger',
    );
}

function lineOf(entry: LogMsg): string {
  const at = `${entry.createdAt.toISOString()} ${pathOf(entry.actor)}`;
  switch (entry.type) {
    case 'trace':
      return `${at} ${LEVEL_NAMES[entry.level]}: ${entry.message}`;
    case 'exception':
      return `${at} EXCEPTION: ${String(entry.exception)}`;
    case 'event':
      return `${at} EVENT ${entry.name}: ${JSON.stringify(entry.properties)}`;
    case 'metric':
      return `${at} METRIC ${entry.name}: ${JSON.stringify(entry.values)}`;
  }
}
