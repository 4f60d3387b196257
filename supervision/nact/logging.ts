/** Where the log of nact's actors goes. */
import { LogLevel, type LogMsg } from './logger.ts';
import type { NactSystem } from './nact-system.ts';
import { type ActorSystemReference, type NactRef, pathOf } from './references.ts';
import { spawnStateless } from './verbs.ts';

const LEVEL_NAMES = Object.keys(LogLevel);

/** Makes the logging actor of a system. */
export type LoggingEngine = (system: ActorSystemReference) => NactRef<LogMsg>;

/** A plugin of `start`: `ctx.log`, and the crashes of actors, go to the actor that `engine` makes. */
export function configureLogging(engine: LoggingEngine): (system: NactSystem) => void {
  return (system) => {
    system.logTo(engine(system.reference));
  };
}

/** A logging engine that logs nothing. */
export function logNothing(): LoggingEngine {
  return (system) => spawnStateless(system, () => {});
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
