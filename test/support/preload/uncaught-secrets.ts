/** Loaded into a process under test (`node --import`): at these signals something goes wrong where nobody looks. */
import { EventEmitter } from 'node:events';

const withSecret = (message: string) => Object.assign(new Error(message), { password: 'hunter2' });

process.on('SIGUSR2', () => void Promise.reject(withSecret('nobody waits for it')));
process.on('SIGWINCH', () => void new EventEmitter().emit('error', withSecret('nobody listens')));
process.on('SIGHUP', () => {
  setTimeout(() => {
    throw withSecret('thrown by a timer');
  }, 1);
});
process.on('SIGIO', () => {
  setImmediate(() => {
    throw 'just words';
  });
});
