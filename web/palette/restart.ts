/** A container that is stopped, and started once it has stopped. */
import { effect } from '@preact/signals';
import type { Container } from '../../client/index.ts';
import { call } from '../core/platform.ts';
import { containers, noteContainer } from '../live/live.ts';
import { toast } from '../parts/toast.tsx';
import { t } from '../text/text.ts';

/** A container that ends by itself gets ten seconds to do so; the platform's own work comes on top, ms. */
const PATIENCE_MS = 60_000;

/** Rejects with TroupeError, or when it does not stop in time. */
export async function restart({ id, name }: Container): Promise<void> {
  noteContainer(await call('stopContainer', { params: { id } }));
  if (!(await isStopped(id))) throw new Error(t.palette.stillStopping(name));
  noteContainer(await call('startContainer', { params: { id } }));
  toast(t.palette.restarted(name));
}

/** Waits for the stream to say so. */
function isStopped(id: string): Promise<boolean> {
  return new Promise((resolve) => {
    let end = () => {};
    const timer = setTimeout(() => finish(false), PATIENCE_MS);
    const finish = (isDone: boolean) => {
      clearTimeout(timer);
      // After the effect has returned what ends it.
      queueMicrotask(() => end());
      resolve(isDone);
    };
    end = effect(() => {
      const status = containers.value?.find((one) => one.id === id)?.status;
      if (status === undefined || status === 'stopped' || status === 'failed') finish(true);
    });
  });
}
