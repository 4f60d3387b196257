/** The servers of bench/gateway: the origin, the peers and their configuration, each one process on one core. */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, writeFile } from 'node:fs/promises';
import { connect } from 'node:net';
import { cpus } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { freePort } from '../../test/support/temp.ts';
import { issueCertificate, makeAuthority } from '../../transports/gateway/tls/local-ca.ts';

/** The parent domain of the containers, and the host that TLS is ended for (wrk sends the URL's host as the server name). */
export const DOMAIN = 'bench.test';
export const TLS_HOST = 'localhost';
/** A container that serves HTTP, one that sends without end, and one that answers once and closes. */
export const CONTAINERS = { http: 'abcdefghijk1', flow: 'abcdefghijk2', once: 'abcdefghijk3' } as const;
export const nameOf = (container: keyof typeof CONTAINERS) => `${CONTAINERS[container]}.compute.${DOMAIN}`;

/** Ports of the origins. */
export interface Origins {
  readonly http: number;
  readonly flow: number;
}

/** A server under test. Ports that it does not serve are 0. */
export interface Peer {
  readonly name: string;
  readonly process: ChildProcess;
  readonly ports: { readonly http: number; readonly https: number; readonly cache: number; readonly pass: number };
}

/** Starts a program on a core, where taskset is there. Its output goes nowhere but to our stderr. */
export function pinned(
  core: number,
  program: string,
  args: string[],
  stdin: 'pipe' | 'ignore' = 'ignore',
): ChildProcess {
  const canPin = cpus().length > core && spawnSync('taskset', ['-c', String(core), 'true']).status === 0;
  const [first, ...rest] = canPin ? ['taskset', '-c', String(core), program, ...args] : [program, ...args];
  return spawn(first ?? program, rest, { stdio: [stdin, 'pipe', 'inherit'] });
}

export async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.kill('SIGTERM');
  const hard = setTimeout(() => child.kill('SIGKILL'), 2000);
  await once(child, 'exit');
  clearTimeout(hard);
}

/** Waits until somebody listens. */
async function listening(port: number): Promise<void> {
  for (let tries = 0; ; tries++) {
    const socket = connect(port, '127.0.0.1');
    const [event] = await Promise.race([
      once(socket, 'connect').then(() => [true]),
      once(socket, 'error').then(() => [false]),
    ]).catch(() => [false]);
    socket.destroy();
    if (event) return;
    if (tries > 200) throw new Error(`Nobody listens on port ${port}.`);
    await delay(25);
  }
}

/** Writes the certificate of `TLS_HOST`; the paths of its parts, and both in one file. */
export async function writeCertificate(folder: string): Promise<{ cert: string; key: string; both: string }> {
  const now = Date.now();
  const pem = await issueCertificate(await makeAuthority('bench', now), [TLS_HOST, `*.${DOMAIN}`], now);
  const paths = { cert: join(folder, 'cert.pem'), key: join(folder, 'key.pem'), both: join(folder, 'both.pem') };
  await writeFile(paths.cert, pem.cert);
  await writeFile(paths.key, pem.key);
  await writeFile(paths.both, `${pem.cert}\n${pem.key}`);
  return paths;
}

const NGINX = (folder: string, http: string) => `
daemon off; master_process off; pid ${folder}/pid; error_log ${folder}/error.log crit; worker_rlimit_nofile 20000;
events { worker_connections 12000; multi_accept on; }
http {
  access_log off; keepalive_timeout 300s; keepalive_requests 1000000000; server_tokens off; sendfile on; tcp_nodelay on;
  default_type text/plain; client_body_temp_path ${folder}/a; proxy_temp_path ${folder}/b; fastcgi_temp_path ${folder}/c;
  uwsgi_temp_path ${folder}/d; scgi_temp_path ${folder}/e; open_file_cache max=100;
  ${http}
}`;

async function startNginx(core: number, folder: string, http: string, port: number): Promise<ChildProcess> {
  await mkdir(folder, { recursive: true });
  await writeFile(join(folder, 'nginx.conf'), NGINX(folder, http));
  const child = pinned(core, 'nginx', [
    '-c',
    join(folder, 'nginx.conf'),
    '-p',
    folder,
    '-e',
    join(folder, 'error.log'),
  ]);
  await listening(port);
  return child;
}

/** The origin: 200 B at /s and /cached/s, 10 KB at /l and /cached/l. What is no HTTP (a ClientHello) gets a short answer and the end. */
export async function startOrigin(folder: string): Promise<{ process: ChildProcess; port: number }> {
  const port = await freePort();
  for (const path of ['', 'cached']) {
    await mkdir(join(folder, 'www', path), { recursive: true });
    await writeFile(join(folder, 'www', path, 's'), 'x'.repeat(200));
    await writeFile(join(folder, 'www', path, 'l'), 'x'.repeat(10_240));
  }
  const process = await startNginx(
    1,
    join(folder, 'origin'),
    `server { listen 127.0.0.1:${port} backlog=4096; root ${folder}/www; location / { add_header Cache-Control no-store; } location /cached/ { add_header Cache-Control "public, max-age=3600"; } }`,
    port,
  );
  return { process, port };
}

/** nginx as the proxy: HTTP, HTTPS, and HTTP with a cache. */
export async function startNginxProxy(folder: string, origins: Origins): Promise<Peer> {
  const ports = { http: await freePort(), https: await freePort(), cache: await freePort(), pass: 0 };
  const to =
    'proxy_pass http://origin; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header Host $host;';
  const told =
    'proxy_set_header X-Forwarded-For $remote_addr; proxy_set_header X-Forwarded-Proto $scheme; proxy_set_header X-Forwarded-Host $host;';
  const process = await startNginx(
    0,
    join(folder, 'nginx'),
    `upstream origin { server 127.0.0.1:${origins.http}; keepalive 128; keepalive_requests 1000000000; }
     proxy_cache_path ${folder}/cache keys_zone=all:10m;
     server { listen 127.0.0.1:${ports.http} backlog=4096; location / { ${to} ${told} } }
     server { listen 127.0.0.1:${ports.https} ssl backlog=4096; ssl_certificate ${folder}/cert.pem; ssl_certificate_key ${folder}/key.pem; location / { ${to} ${told} } }
     server { listen 127.0.0.1:${ports.cache} backlog=4096; location / { ${to} ${told} proxy_cache all; } }`,
    ports.http,
  );
  return { name: 'nginx', process, ports };
}

/** haproxy: HTTP, HTTPS, and TCP with a look at the server name. */
export async function startHaproxy(folder: string, origins: Origins): Promise<Peer> {
  const ports = { http: await freePort(), https: await freePort(), cache: 0, pass: await freePort() };
  const told = `http-request set-header X-Forwarded-For %[src]
  http-request set-header X-Forwarded-Proto http
  http-request set-header X-Forwarded-Host %[req.hdr(host)]`;
  await writeFile(
    join(folder, 'haproxy.cfg'),
    `global
  nbthread 1
  maxconn 9000
defaults
  mode http
  timeout client 300s
  timeout server 300s
  timeout connect 5s
  timeout http-request 10s
  http-reuse always
frontend plain
  bind 127.0.0.1:${ports.http} backlog 4096
  ${told}
  default_backend origin
frontend secure
  bind 127.0.0.1:${ports.https} backlog 4096 ssl crt ${folder}/both.pem alpn http/1.1
  ${told}
  default_backend origin
backend origin
  server one 127.0.0.1:${origins.http}
frontend pass
  mode tcp
  bind 127.0.0.1:${ports.pass} backlog 4096
  tcp-request inspect-delay 5s
  tcp-request content accept if { req.ssl_hello_type 1 }
  use_backend flow if { req.ssl_sni -i ${nameOf('flow')} }
  default_backend once
backend flow
  mode tcp
  server one 127.0.0.1:${origins.flow}
backend once
  mode tcp
  server one 127.0.0.1:${origins.http}
`,
  );
  const process = pinned(0, 'haproxy', ['-db', '-f', join(folder, 'haproxy.cfg')]);
  await listening(ports.http);
  return { name: 'haproxy', process, ports };
}
