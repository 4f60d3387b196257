/** The page at `https://<domain>/`: what this is and where to go on. It tells strangers nothing that is not public. */
import { createHash } from 'node:crypto';
import { sshCommand, sshHost } from '../../proto/gateway/ssh.ts';
import type { ProxyReply } from '../../proto/gateway/traffic.ts';

/** What the page speaks of. */
interface Landing {
  readonly domain: string;
  /** `:8443` as the visitor wrote it; empty when they named no port. */
  readonly port: string;
  /** Where the gateway's SSH server listens. */
  readonly sshPort: number;
  /** Which of the services have a host here. */
  readonly has: (host: string) => boolean;
}

const SERVICES = [
  ['auth', 'log in, security keys, API tokens'],
  ['compute', 'containers, terminals, logs, SSH keys'],
  ['net', 'hostnames of your own'],
  ['monitor', 'how busy your containers are'],
  ['notify', 'notifications'],
] as const;

const STYLE = `
:root { color-scheme: light dark; --text: #1c2430; --soft: #55606e; --back: #fbfaf7; --box: #f0eee8; --line: #dcd8ce;
--link: #0b5cad; }
@media (prefers-color-scheme: dark) {
  :root { --text: #e6e8eb; --soft: #a0a9b5; --back: #14181d; --box: #1e242b; --line: #323a44; --link: #7cb7f5; }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--back); color: var(--text); font: 1rem/1.55 system-ui, sans-serif; }
main { max-width: 46rem; margin: 0 auto; padding: clamp(1.5rem, 6vw, 4rem) clamp(1rem, 5vw, 2rem); }
h1 { margin: 0; font-size: clamp(1.5rem, 5vw, 2rem); line-height: 1.2; overflow-wrap: anywhere; }
h2 { margin: 2.25rem 0 .5rem; font-size: 1.1rem; }
p { margin: .5rem 0; }
.lead, .note, dd { color: var(--soft); }
.note { font-size: .9rem; }
a { color: var(--link); text-underline-offset: .15em; }
code, pre { font: .875rem/1.5 ui-monospace, monospace; }
pre { margin: .75rem 0; padding: .75rem 1rem; background: var(--box); border: 1px solid var(--line); border-radius:
.5rem; white-space: pre-wrap; overflow-wrap: anywhere; }
dl { margin: 0; border-top: 1px solid var(--line); }
dl div { display: grid; grid-template-columns: 6rem 1fr auto; gap: 0 1rem; padding: .5rem 0; border-bottom: 1px solid
var(--line); }
dt { font-weight: 600; }
dd { margin: 0; }
.go { display: flex; gap: 1rem; }
@media (max-width: 34rem) { dl div { grid-template-columns: 1fr; padding: .65rem 0; } .go { margin-top: .2rem; } }
`;

/** No scripts, no frames, nothing from elsewhere; the one style is named by its hash. */
const LOCAL_NAMES = `<p class="note">Names below <code>localhost</code> resolve in browsers and in curl only.
Other programs need the address 127.0.0.1.</p>
`;

const POLICY = [
  "default-src 'none'",
  `style-src 'sha256-${createHash('sha256').update(STYLE).digest('base64')}'`,
  'img-src data:',
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

const HEADERS = [
  ['Content-Security-Policy', POLICY],
  ['X-Content-Type-Options', 'nosniff'],
  ['Referrer-Policy', 'no-referrer'],
  ['Cache-Control', 'no-cache'],
] as const;

/** Makes the page. */
export function landingPage({ domain, port, sshPort, has }: Landing): ProxyReply {
  const at = (name: string) => escaped(`https://${name}.${domain}${port}`);
  const services = SERVICES.filter(([name]) => has(`${name}.${domain}`)).map(
    ([name, what]) => `<div><dt>${name}</dt><dd>${what}</dd>
<dd class="go"><a href="${at(name)}/openapi.json" aria-label="Interface of ${name}">interface</a> <a
href="${at(name)}/healthz" aria-label="State of ${name}">state</a></dd></div>`,
  );
  const body = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escaped(domain)}</title>
<link rel="icon" href="data:,">
<style>${STYLE}</style>
</head>
<body>
<main>
<h1>${escaped(domain)}</h1>
<p class="lead">A Troupe platform: a container cloud. With an account you run containers here, enter them by terminal or
SSH, and give them hostnames.</p>

<h2>Log in</h2>
<p>From a terminal. The operator of this platform gives accounts.</p>
<pre><code>curl -s ${at('auth')}/api/login \\
  -d '{"username":"NAME","password":"PASSWORD"}'</code></pre>
<p>The reply holds a token; send it with each request as <code>Authorization: Bearer TOKEN</code>.</p>
<p class="note">If curl or your browser does not trust the certificate, ask the operator of this platform for
<code>ca.pem</code> of its data folder. Give it to curl with <code>--cacert ca.pem</code>, and to a browser as a
certificate authority in its settings (Firefox: Settings, Certificates, View Certificates, Authorities, Import; Chrome:
Settings, Security, Manage certificates).</p>

<h2>Enter a container</h2>
<p>With an SSH key that you added to your account and chose for the container:</p>
<pre><code>${escaped(sshCommand('CONTAINER_ID', { host: sshHost(domain), port: sshPort }))}</code></pre>
${/(?:^|\.)localhost$/i.test(domain) ? LOCAL_NAMES : ''}
<h2>Services</h2>
<dl>
${services.join('\n')}
</dl>

<h2>Documentation</h2>
<p>Each service describes all that it answers in its interface (OpenAPI, JSON). Guides are in <code>README.md</code>
and the folder <code>docs</code> that come with Troupe.</p>
</main>
</body>
</html>
`;
  return { status: 200, headers: HEADERS, contentType: 'text/html; charset=utf-8', body };
}

function escaped(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}
