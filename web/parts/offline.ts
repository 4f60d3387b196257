/** Why nothing can be asked of the platform now. */
import { isOnline } from '../core/online.ts';
import { t } from '../text/text.ts';

/** What a control says that asks the platform at once, as long as the browser is offline; nothing of other controls. */
export function offlineReason(asks: boolean): string | undefined {
  return asks && !isOnline.value ? t.link.offlineReason : undefined;
}
