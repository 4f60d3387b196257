/** Whether this browser has a network. */
import { signal } from '@preact/signals';

export const isOnline = signal(navigator.onLine);

/** Called once. */
export function startOnline(): void {
  const look = () => {
    isOnline.value = navigator.onLine;
  };
  addEventListener('online', look);
  addEventListener('offline', look);
}
