/**
 * Web servers as Debian has them, each on a free port in a folder of its own, ended by its pid. Those that are proxies ask a recorder
 * behind them, so that it is known what they made of each request; all write down the requests they took.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { join } from 'node:path';
import { findProgram } from '../require.ts';
import { type Cleanup, freePort, tempDir } from '../temp.ts';
import { until } from '../until.ts';
import type { Seen } from './ambiguous-requests.ts';
import { type Recorder, recorder } from './recording-origin.ts';

/** A running origin. */
export interface Origin {
  readonly port: number;
  /** What the recorder behind it, or the server itself, took as whole requests. */
  readonly seen: () => Promise<readonly Seen[]>;
  /** Ends it and reads its own log: `<method> <target>` of each request it took, whatever it answered. */
  readonly logged: () => Promise<readonly string[]>;
}

interface Start {
  readonly port: number;
  readonly folder: string;
  /** Port of the recorder. */
  readonly behind: number;
}

interface Kind {
  readonly program: string;
  /** Writes what it needs and says how it is started. */
  readonly prepare: (
    start: Start,
  ) => Promise<{ args: string[]; env?: Record<string, string>; extra?: [string, string[]] }>;
  /** Lines of its log. */
  readonly read: (folder: string) => Promise<string[]>;
}

const text = async (folder: string, name = 'access.log') => {
  const lines = await readFile(join(folder, name), 'utf8').catch(() => '');
  return lines.split('\n').filter((line) => line !== '');
};
/** `GET /x HTTP/1.1` without its version. */
const requestLine = (line: string) => line.replace(/ HTTP\/1\.[01]$/, '');

const KINDS: Readonly<Record<string, Kind>> = {
  nginx: {
    program: 'nginx',
    prepare: async ({ port, folder, behind }) => {
      const temp = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'];
      const paths = temp.map((name) => `${name}_temp_path ${folder}/${name};`).join(' ');
      await writeFile(
        join(folder, 'nginx.conf'),
        `daemon off; user root; worker_processes 1; pid ${folder}/pid; error_log ${folder}/error.log;
        events { worker_connections 512; }
        http { ${paths} log_format seen '$request'; access_log ${folder}/access.log seen;
          underscores_in_headers on; ignore_invalid_headers off; merge_slashes off; client_max_body_size 0;
          server { listen 127.0.0.1:${port}; location / { proxy_pass http://127.0.0.1:${behind}; proxy_http_version 1.1;
            proxy_set_header Connection ""; proxy_set_header Host $http_host; } } }`,
      );
      return { args: ['-c', join(folder, 'nginx.conf'), '-e', join(folder, 'error.log')] };
    },
    read: async (folder) => (await text(folder)).map(requestLine),
  },
  apache2: {
    program: 'apache2',
    prepare: async ({ port, folder, behind }) => {
      const modules = ['mpm_event', 'authz_core', 'proxy', 'proxy_http'];
      await writeFile(
        join(folder, 'apache.conf'),
        `ServerRoot ${folder}\nServerName a.test\nListen 127.0.0.1:${port}\nPidFile ${folder}/pid\nErrorLog ${folder}/error.log
        ${modules.map((name) => `LoadModule ${name}_module /usr/lib/apache2/modules/mod_${name}.so\n`).join('')}
        DefaultRuntimeDir ${folder}\nUser nobody\nGroup nogroup\nMutex posixsem\nStartServers 1\nLogFormat "%r" seen\nCustomLog ${folder}/access.log seen
        AllowEncodedSlashes NoDecode\nMergeSlashes Off\nKeepAliveTimeout 30\nMaxKeepAliveRequests 0\nLimitRequestLine 20000
        ProxyPreserveHost On\nProxyPass / http://127.0.0.1:${behind}/ nocanon\n`,
      );
      return { args: ['-f', join(folder, 'apache.conf'), '-DFOREGROUND'] };
    },
    read: async (folder) => (await text(folder)).map(requestLine),
  },
  haproxy: {
    program: 'haproxy',
    prepare: async ({ port, folder, behind }) => {
      await writeFile(
        join(folder, 'haproxy.cfg'),
        `global\n maxconn 500\ndefaults\n mode http\n log-format "%HM %HU %ST %B %Tt"\n option dontlognull
 timeout client 30s\n timeout server 30s\n timeout connect 5s\n timeout http-keep-alive 30s
frontend f\n log stdout format raw local0\n bind 127.0.0.1:${port}\n default_backend b\nbackend b\n server s 127.0.0.1:${behind}\n`,
      );
      return { args: ['-db', '-f', join(folder, 'haproxy.cfg')] };
    },
    // With what is known only at its end, a request is written down once.
    read: async (folder) => (await text(folder, 'stdout')).map((line) => line.replace(/( -?\d+){3}$/, '')),
  },
  lighttpd: {
    program: 'lighttpd',
    prepare: async ({ port, folder, behind }) => {
      await writeFile(
        join(folder, 'lighttpd.conf'),
        `server.bind = "127.0.0.1"\nserver.port = ${port}\nserver.document-root = "${folder}"\nserver.modules = ("mod_accesslog", "mod_proxy")
server.errorlog = "${folder}/error.log"\naccesslog.filename = "${folder}/access.log"\naccesslog.format = "%r"
server.max-keep-alive-requests = 100000\nserver.max-keep-alive-idle = 30\nproxy.server = ("" => (("host" => "127.0.0.1", "port" => ${behind})))\n`,
      );
      return { args: ['-D', '-f', join(folder, 'lighttpd.conf')] };
    },
    read: async (folder) => (await text(folder)).map(requestLine),
  },
  caddy: {
    program: 'caddy',
    prepare: async ({ port, folder, behind }) => {
      await writeFile(
        join(folder, 'Caddyfile'),
        `{\n\tadmin off\n\tauto_https off\n}\nhttp://:${port} {\n\tbind 127.0.0.1\n\tlog {\n\t\toutput file ${folder}/access.log\n\t\tformat json\n\t}\n\treverse_proxy 127.0.0.1:${behind}\n}\n`,
      );
      const env = { HOME: folder, XDG_CONFIG_HOME: folder, XDG_DATA_HOME: folder };
      return { args: ['run', '--config', join(folder, 'Caddyfile'), '--adapter', 'caddyfile'], env };
    },
    read: async (folder) =>
      (await text(folder)).map((line) => {
        const { request } = JSON.parse(line);
        return `${request.method} ${request.uri}`;
      }),
  },
  varnish: {
    program: 'varnishd',
    prepare: async ({ port, folder, behind }) => {
      await mkdir(join(folder, 'work'));
      await writeFile(
        join(folder, 'default.vcl'),
        `vcl 4.1;\nbackend b { .host = "127.0.0.1"; .port = "${behind}"; }\nsub vcl_recv { return (pass); }\n`,
      );
      const work = join(folder, 'work');
      return {
        args: [
          '-F',
          '-j',
          'none',
          '-a',
          `127.0.0.1:${port}`,
          '-f',
          join(folder, 'default.vcl'),
          '-n',
          work,
          '-s',
          'malloc,8m',
          '-p',
          'timeout_idle=30',
        ],
        extra: ['varnishncsa', ['-n', work, '-F', '%r', '-w', join(folder, 'access.log'), '-t', '10']],
      };
    },
    // It writes the URL of a request as an absolute one, with the Host before it.
    read: async (folder) => (await text(folder)).map((line) => requestLine(line).replace(/ https?:\/\/[^/ ]*/, ' ')),
  },
  python: {
    program: 'python3',
    prepare: async ({ port, folder }) => {
      await writeFile(join(folder, 'server.py'), PYTHON);
      return { args: [join(folder, 'server.py'), `${port}`, join(folder, 'access.log'), join(folder, 'whole.log')] };
    },
    read: (folder) => text(folder),
  },
  node: {
    program: process.execPath,
    prepare: async () => ({ args: [] }),
    read: async () => [],
  },
};

/** A server on Python's http.server, with chunks as it leaves them to its users. */
const PYTHON = `
import http.server, sys
port, access, whole = int(sys.argv[1]), open(sys.argv[2], 'a', 1), open(sys.argv[3], 'a', 1)
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    wbufsize = -1
    def log_request(self, code='-', size='-'):
        pass
    def log_error(self, format, *args):
        access.write('BAD ' + (format % args) + '\\n')
    def answer(self):
        access.write(self.command + ' ' + self.path + '\\n')
        length = 0
        if self.headers.get('Transfer-Encoding') == 'chunked':
            while True:
                line = self.rfile.readline()
                if not line:
                    self.close_connection = True
                    return
                size = int(line.split(b';')[0], 16)
                if len(self.rfile.read(size)) < size:
                    self.close_connection = True
                    return
                length += size
                if size:
                    self.rfile.readline()
                else:
                    while self.rfile.readline() not in (b'\\r\\n', b''): pass
                    break
        else:
            wanted = int(self.headers.get('Content-Length') or 0)
            length = len(self.rfile.read(wanted))
            if length < wanted:
                self.close_connection = True
                return
        whole.write('%s %s %d\\n' % (self.command, self.path, length))
        body = ('[%s %s %d]' % (self.command, self.path, length)).encode('latin1')
        self.send_response(200)
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)
for method in ('GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'PROPFIND'):
    setattr(Handler, 'do_' + method, Handler.answer)
class Server(http.server.ThreadingHTTPServer):
    def handle_error(self, request, address):
        pass
Server(('127.0.0.1', port), Handler).serve_forever()
`;

/** Names of all origins, and the programs they need. */
export const ORIGINS: Readonly<Record<string, string[]>> = Object.fromEntries(
  Object.entries(KINDS).map(([name, { program }]) => [
    name,
    name === 'varnish' ? [program, 'varnishncsa'] : name === 'node' ? [] : [program],
  ]),
);

/** Starts one. Rejects with its words when it does not come up. */
export async function startOrigin(t: Cleanup, name: string): Promise<Origin> {
  const kind = KINDS[name];
  if (kind === undefined) throw new Error(`no origin ${name}`);
  const behind: Recorder = await recorder(t);
  if (name === 'node')
    return {
      port: behind.port,
      seen: async () => behind.seen,
      logged: async () => behind.seen.map(([method, path]) => `${method} ${path}`),
    };
  const folder = await tempDir(t);
  const port = await freePort();
  const { args, env, extra } = await kind.prepare({ port, folder, behind: behind.port });
  let said = '';
  const run = (program: string, args: readonly string[]): ChildProcess => {
    const child = spawn(findProgram(program) ?? program, args, {
      env: { ...process.env, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    child.stdout?.on('data', (chunk: Buffer) => (said += chunk));
    child.stderr?.on('data', (chunk: Buffer) => (said += name === 'haproxy' ? '' : chunk));
    return child;
  };
  const running = [run(kind.program, args)];
  const stop = async () => {
    // What reads the log of another outlives it.
    for (const child of running.splice(0)) {
      if (child.exitCode !== null || child.signalCode !== null) continue;
      const ended = once(child, 'exit');
      child.kill(name === 'nginx' || name === 'apache2' ? 'SIGTERM' : 'SIGINT');
      const timer = setTimeout(() => child.kill('SIGKILL'), 5000);
      await ended;
      clearTimeout(timer);
    }
  };
  t.after(stop);
  const [server] = running;
  await until(
    async () => {
      if (server?.exitCode !== null) throw new Error(`${name} ended:\n${said}`);
      return accepts(port);
    },
    { what: `${name} listens`, timeoutMs: 60_000, everyMs: 50 },
  );
  if (extra !== undefined) running.push(run(...extra));
  return {
    port,
    seen: async () =>
      name === 'python'
        ? (await text(folder, 'whole.log')).map((line): Seen => {
            const [method = '', path = '', length] = line.split(' ');
            return [method, path, Number(length)];
          })
        : behind.seen,
    logged: async () => {
      await stop();
      if (name === 'haproxy') await writeFile(join(folder, 'stdout'), said);
      return kind.read(folder);
    },
  };
}

function accepts(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    socket.once('connect', () => {
      socket.destroy();
      resolve(true);
    });
    socket.once('error', () => resolve(false));
  });
}
