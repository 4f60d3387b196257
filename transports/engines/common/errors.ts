/** What was thrown while talking to an engine, as text and as EngineError. */
import { errorText } from '../../../lib/errors.ts';
import { EngineError, type EngineErrorCode } from '../../../proto/ports/engine.ts';

/** The system's error code (`ECONNREFUSED`, ...) of an unknown error, or undefined. */
export function systemCode(error: unknown): string | undefined {
  if (typeof error !== 'object' || error === null || !('code' in error)) return undefined;
  return typeof error.code === 'string' ? error.code : undefined;
}

/** An engine's text made fit for one line of a user's screen: no control characters, at most 500 characters. */
export function cleanReason(text: string): string {
  const oneLine = text.replace(/\p{Cc}+/gu, ' ').trim();
  return oneLine.length > 500 ? `${oneLine.slice(0, 499)}…` : oneLine;
}

/** Turns whatever was thrown while talking to the engine into an EngineError, keeping it as the cause. */
export function toEngineError(error: unknown, fallback: EngineErrorCode = 'unavailable'): EngineError {
  if (error instanceof EngineError) return error;
  return new EngineError(fallback, `The container engine cannot be reached: ${cleanReason(errorText(error))}.`, {
    cause: error,
  });
}
