/**
 * A platform with one container, which is a folder of this machine: its commands run here, with that folder in the place
 * of `/root`. A deployment is a copy, without a program that starts: for what commands do around it.
 */
import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { chmod, mkdir, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import type { ClientTransport, SocketListener } from '../../../client/transport.ts';
import { tempDir } from '../temp.ts';
import { answer, askByKey, beginCommand, type SaidAndEnded } from './account-command.ts';

const ID = 'abcdefghijk1';

/** Steps of a deployment. With a file `broken` in the release it fails, as one whose program is not well. */
const STEPS = `
verb=$1
releases=/root/app/releases
case $verb in
begin) mkdir -p $releases/new/app; echo $releases/new ;;
activate)
  if [ -e "$2/app/broken" ]; then rm -rf "$2"; echo 'The program ended with exit code 4.' >&2; exit 11; fi
  n=$(($(ls $releases | grep -c '^[0-9]') + 1))
  mv "$2" $releases/$n
  ln -sfn releases/$n /root/app/current
  echo $n ;;
rollback) ln -sfn "releases/$2" /root/app/current; echo "$2" ;;
*) cat > /dev/null ;;
esac
`;

function platform(root: string): ClientTransport {
  const hostname = `${ID}.compute.x.test`;
  const container = { id: ID, name: 'shop', status: 'running', hostname };
  const rules = [{ port: 443, target_port: 8080, tls: 'platform', cache: 'explicit' }];
  return {
    socketHeaders: true,
    async send({ url }) {
      const { pathname } = new URL(url);
      if (pathname.endsWith('/containers')) return answer(200, { containers: [container] });
      if (pathname.endsWith('/settings')) return answer(200, { env: {}, secrets: [] });
      if (pathname.endsWith('/ingress')) return answer(200, { rules });
      return answer(404, { error: 'There is nothing here.', code: 'not_found' });
    },
    connect(url, _headers, listener) {
      const words = new URL(url).searchParams.getAll('command').map((word) => word.replaceAll('/root', root));
      return socketOf(words, listener);
    },
  };
}

function socketOf([program = '', ...args]: readonly string[], listener: SocketListener) {
  // The steps are those above.
  const isSteps = args.some((word) => word.includes('release.sh.new'));
  let child: ChildProcessWithoutNullStreams | undefined;
  let received = 0;
  const tell = (said: object) => listener.text(JSON.stringify(said));
  const output = (stream: 1 | 2) => (bytes: Buffer) => listener.binary(Buffer.concat([Buffer.of(stream), bytes]));
  setImmediate(() => {
    listener.opened();
    child = isSteps ? spawn('sh', ['-c', 'cat > /dev/null']) : spawn(program, args);
    child.stdout.on('data', output(1));
    child.stderr.on('data', output(2));
    child.stdin.on('error', () => {});
    child.on('close', (code) => tell({ type: 'exit', code: code ?? 137 }));
    tell({ type: 'session', session: 's', resumable: true, cursor: 0, gap: 0, input: { received: 0, written: 0 } });
  });
  return {
    send(data: string | Uint8Array) {
      if (typeof data === 'string') {
        if (data.includes('"eof"')) child?.stdin.end();
        return;
      }
      child?.stdin.write(data);
      received += data.length;
      tell({ type: 'input', received, written: received });
    },
    close: () => void child?.kill(),
    waitingBytes: 0,
  };
}

/** The container, and a repository of git beside it whose remote `t` is the container. */
export async function folderContainer(t: TestContext) {
  const folder = await tempDir(t);
  const at = (...names: string[]) => join(folder, ...names);
  const root = at('inside');
  await mkdir(join(root, '.troupe'), { recursive: true });
  await writeFile(join(root, '.troupe', 'release.sh'), STEPS.replaceAll('/root', root));
  const transport = platform(root);
  /** A command by SSH. */
  const ask = (command: string): Promise<SaidAndEnded> => askByKey(transport, command);
  // What git takes for ssh: a line with the command, then the bytes of both sides.
  let pushSaid = '';
  let pushCode: Promise<number> | undefined;
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    socket.on('error', () => {});
    socket.once('data', (first: Buffer) => {
      const end = first.indexOf(10);
      if (end + 1 < first.length) socket.unshift(first.subarray(end + 1));
      pushCode = beginCommand(transport, first.subarray(0, end).toString(), {
        input: socket,
        output: socket,
        say: (text) => {
          pushSaid += text;
        },
      });
      void pushCode.then(() => socket.end());
    });
  });
  await new Promise<void>((resolve) => server.listen(at('ssh.sock'), resolve));
  t.after(() => server.close());
  const connect = `import { connect } from 'node:net';
const s = connect(${JSON.stringify(at('ssh.sock'))});
s.write(process.argv.at(-1) + '\\n'); process.stdin.pipe(s); s.pipe(process.stdout); s.on('close', () => process.exit())`;
  await writeFile(at('ssh.mjs'), connect);
  await writeFile(at('ssh'), `#!/bin/sh\nexec '${process.execPath}' '${at('ssh.mjs')}' "$@"\n`);
  await chmod(at('ssh'), 0o755);
  const env = { PATH: process.env.PATH, HOME: folder, GIT_SSH: at('ssh'), GIT_SSH_VARIANT: 'simple' };
  const git = async (...words: string[]): Promise<SaidAndEnded> => {
    pushSaid = '';
    pushCode = undefined;
    const own = ['-c', 'user.name=ann', '-c', 'user.email=ann@x.test', '-c', 'protocol.file.allow=always'];
    const child = spawn('git', [...own, '-C', at('app'), ...words], { env, stdio: ['ignore', 'pipe', 'pipe'] });
    let said = '';
    const add = (text: Buffer) => {
      said += String(text);
    };
    child.stdout.on('data', add);
    child.stderr.on('data', add);
    const code = await new Promise<number | null>((resolve) => child.on('close', resolve));
    return { code: pushCode === undefined ? code : await pushCode, said: said + pushSaid };
  };
  await mkdir(at('app'));
  await git('init', '-q', '-b', 'main');
  await git('remote', 'add', 't', 'ssh://x/shop');
  return {
    at,
    ask,
    git,
    /** Writes files, and commits all. */
    async commit(subject: string, files: Readonly<Record<string, string>>): Promise<void> {
      for (const [name, text] of Object.entries(files)) await writeFile(at('app', name), text);
      await git('add', '-A');
      await git('commit', '-q', '--allow-empty', '-m', subject);
    },
  };
}
