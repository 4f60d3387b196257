/** Starts the bridge to the holder of a shell, on a connection that is logged in. */
import type { Client, ClientChannel } from 'ssh2';
import { HELLO, type HolderArguments, holderCommand, holderProgram } from './shell-holder-script.ts';

/** What a login may print before the bridge says hello. */
const MAX_BEFORE_BYTES = 64 * 1024;
/** How long the bridge may take to say it. */
const HELLO_MS = 8000;
/** What it complains about, as far as it is kept. */
const MAX_COMPLAINT = 500;

/**
 * Resolves, in the turn in which it says hello, with its channel, paused. Rejects when the container cannot run it (no
 * perl, no place for sockets, no terminals), when it takes too long, and when the connection is lost.
 */
export function openBridge(client: Client, options: HolderArguments): Promise<ClientChannel> {
  return new Promise((resolve, reject) => {
    client.exec(holderCommand(options), (cause, channel) => {
      if (cause) reject(cause);
      else awaitHello(client, channel).then(resolve, reject);
    });
  });
}

function awaitHello(client: Client, channel: ClientChannel): Promise<ClientChannel> {
  return new Promise((resolve, reject) => {
    let before = Buffer.alloc(0);
    let complaint = '';
    const settle = () => {
      clearTimeout(timer);
      channel.off('data', onData).off('close', onClose).off('end', onClose);
      client.off('close', onClose);
    };
    const fail = (text: string) => {
      settle();
      channel.on('error', () => {}).resume();
      channel.close();
      reject(new Error(complaint === '' ? text : `${text}: ${complaint}`));
    };
    const onClose = () => fail('it ended');
    const onData = (chunk: Buffer) => {
      before = Buffer.concat([before, chunk]);
      const at = before.indexOf(HELLO);
      if (at < 0 && before.length <= MAX_BEFORE_BYTES) return;
      // A holder speaks when it is spoken to: nothing comes after the hello.
      if (at + HELLO.length !== before.length) {
        fail('something else answers');
        return;
      }
      settle();
      channel.pause();
      resolve(channel);
    };
    const timer = setTimeout(() => fail('it did not answer in time'), HELLO_MS);
    channel.on('data', onData).on('close', onClose).on('end', onClose);
    channel.stderr.setEncoding('utf8').on('data', (text: string) => {
      complaint = (complaint + text).slice(0, MAX_COMPLAINT);
    });
    client.on('close', onClose);
    channel.write(holderProgram);
  });
}
