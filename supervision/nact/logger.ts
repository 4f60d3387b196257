/** `ctx.log` of nact: each entry is a message to the logging actor of the system. */
import type { Log } from '../../proto/ports/log.ts';
import { type ActorSystemReference, type AnyNactRef, type NactRef, pathOf, sendTo } from './references.ts';

/** Levels of `trace`. */
export const LogLevel = { OFF: 0, TRACE: 1, DEBUG: 2, INFO: 3, WARN: 4, ERROR: 5, CRITICAL: 6 } as const;

interface LogMessage {
  readonly actor: AnyNactRef;
  readonly createdAt: Date;
}

/** What a logging actor is told. */
export type LogMsg = LogMessage &
  (
    | { readonly type: 'trace'; readonly level: number; readonly message: string }
    | { readonly type: 'event'; readonly name: string; readonly properties: unknown }
    | { readonly type: 'metric'; readonly name: string; readonly values: unknown }
    | { readonly type: 'exception'; readonly exception: unknown }
  );

/** `ctx.log`. Without a logging engine nothing is logged. */
export class NactLogger {
  readonly #to: NactRef<LogMsg> | undefined;
  readonly #actor: AnyNactRef;

  constructor(to: NactRef<LogMsg> | undefined, actor: AnyNactRef) {
    this.#to = to;
    this.#actor = actor;
  }

  trace(message: string): void {
    this.#trace(LogLevel.TRACE, message);
  }

  debug(message: string): void {
    this.#trace(LogLevel.DEBUG, message);
  }

  info(message: string): void {
    this.#trace(LogLevel.INFO, message);
  }

  warn(message: string): void {
    this.#trace(LogLevel.WARN, message);
  }

  error(message: string): void {
    this.#trace(LogLevel.ERROR, message);
  }

  critical(message: string): void {
    this.#trace(LogLevel.CRITICAL, message);
  }

  event(name: string, properties: unknown): void {
    this.#send({ type: 'event', name, properties, ...this.#origin() });
  }

  metric(name: string, values: unknown): void {
    this.#send({ type: 'metric', name, values, ...this.#origin() });
  }

  exception(exception: unknown): void {
    this.#send({ type: 'exception', exception, ...this.#origin() });
  }

  #trace(level: number, message: string): void {
    this.#send({ type: 'trace', level, message: String(message), ...this.#origin() });
  }

  #origin(): LogMessage {
    return { actor: this.#actor, createdAt: new Date() };
  }

  #send(entry: LogMsg): void {
    if (this.#to !== undefined) sendTo(this.#to, entry, this.#actor);
  }
}

/** The log of the runtime: crashes and what else it warns of, as entries of the actor they are about. */
export function runtimeLog(system: ActorSystemReference, to: () => NactRef<LogMsg> | undefined): Log {
  const write = (level: 'debug' | 'info' | 'warn' | 'error', fields: object, message: string): void => {
    const target = to();
    // What a logging actor does wrong is not told to it again.
    if (target === undefined || ('actor' in fields && fields.actor === pathOf(target))) return;
    const logger = new NactLogger(target, system);
    if ('err' in fields) logger.exception(fields.err);
    else logger[level](message);
  };
  const log: Log = {
    debug: (fields, message) => write('debug', fields, message),
    info: (fields, message) => write('info', fields, message),
    warn: (fields, message) => write('warn', fields, message),
    error: (fields, message) => write('error', fields, message),
    child: () => log,
  };
  return log;
}
