/** Loaded into a process under test (`node --import`): at these signals something goes wrong where nobody looks. */
import { EventEmitter } from 'node:events';

process.on('SIGUSR2', () => void Promise.reject(new Error('nobody waits for it')));
process.on('SIGWINCH', () => void new EventEmitter().emit('error', new Error('nobody listens')));
process.on('SIGHUP', () => {
  const emitter = new EventEmitter();
  emitter.on('news', () => {
    throw new Error('thrown by a listener');
  });
  setImmediate(() => emitter.emit('news'));
});
