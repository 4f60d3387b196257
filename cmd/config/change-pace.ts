/** How often users may change something, as the operator set it. */
import type { ChangePace } from '../../proto/fair-buckets.ts';
import type { Environment } from './config.ts';

const DEFAULT: ChangePace = { burst: 600, perSecond: 10 };

/** The pace of CHANGES_BURST and CHANGES_PER_SECOND. Without them CHANGES_PER_MINUTE of earlier versions counts. */
export function changePace(
  environment: Pick<Environment, 'CHANGES_BURST' | 'CHANGES_PER_SECOND' | 'CHANGES_PER_MINUTE'>,
): ChangePace {
  const { CHANGES_BURST: burst, CHANGES_PER_SECOND: perSecond, CHANGES_PER_MINUTE: perMinute } = environment;
  const otherwise = perMinute === undefined ? DEFAULT : { burst: perMinute, perSecond: perMinute / 60 };
  return { burst: burst ?? otherwise.burst, perSecond: perSecond ?? otherwise.perSecond };
}
