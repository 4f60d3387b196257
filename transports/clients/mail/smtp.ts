/** The operator's mail server, by SMTP. */
import { createTransport } from 'nodemailer';
import { withTimeout } from '../../../lib/waiting.ts';
import { type Mail, MailError, type Mailer } from '../../../proto/ports/mailer.ts';

/** For a connection, for the greeting, and for each answer after it. */
const TIMEOUT_MS = 10_000;
/** For all of a mail. */
const WHOLE_MS = 30_000;

interface SmtpOptions {
  /** `smtp://` with STARTTLS, or `smtps://`; with user and password if the server wants them. */
  readonly url: string;
  /** `notices@example.com`, or `Troupe <notices@example.com>`. */
  readonly from: string;
  /** The platform's. */
  readonly domain: string;
  /** Whether mail, and the password, may go there without TLS. */
  readonly isPlainAllowed: boolean;
  /** Certificates of authorities that are trusted instead of the system's. */
  readonly ca?: string;
}

/** Whether the host is this machine: nobody listens in between. */
function isThisMachine(hostname: string): boolean {
  return hostname === 'localhost' || hostname === '[::1]' || /^127\.[0-9.]+$/.test(hostname);
}

/** Makes the client. It connects for each mail anew. */
export function smtpMailer({ url, from, domain, isPlainAllowed, ca }: SmtpOptions): Mailer {
  const server = new URL(url);
  const isTls = server.protocol === 'smtps:';
  const user = decodeURIComponent(server.username);
  const transport = createTransport({
    host: server.hostname.replace(/^\[|\]$/g, ''),
    port: server.port === '' ? (isTls ? 465 : 587) : Number(server.port),
    secure: isTls,
    requireTLS: !isTls && !isPlainAllowed && !isThisMachine(server.hostname),
    name: domain,
    ...(user === '' ? {} : { auth: { user, pass: decodeURIComponent(server.password) } }),
    ...(ca === undefined ? {} : { tls: { ca } }),
    connectionTimeout: TIMEOUT_MS,
    greetingTimeout: TIMEOUT_MS,
    socketTimeout: TIMEOUT_MS,
    dnsTimeout: TIMEOUT_MS,
    disableFileAccess: true,
    disableUrlAccess: true,
  });
  return {
    domain,
    send: async ({ to, subject, text, id }: Mail) => {
      try {
        const sent = transport.sendMail({
          from,
          to: { name: '', address: to },
          subject,
          text,
          messageId: `<${id}@${domain}>`,
          // RFC 3834: nobody's holiday notice should answer.
          headers: { 'auto-submitted': 'auto-generated' },
        });
        await withTimeout(sent, WHOLE_MS, () => {
          throw new Error('not in time');
        });
      } catch (error) {
        throw failure(error);
      }
    },
  };
}

/** What the server said no to when it looked at the mail, and not at whoever brings it. */
const OF_THE_MAIL = ['RCPT TO', 'DATA'];

function failure(error: unknown): MailError {
  const status = error instanceof Error && 'responseCode' in error ? Number(error.responseCode) : 0;
  const command = error instanceof Error && 'command' in error ? String(error.command) : '';
  // Anything else is the operator's to mend: the mail waits for it.
  if (status >= 500 && OF_THE_MAIL.includes(command))
    return new MailError('refused', `The mail server refuses it (${status}).`, { cause: error });
  return new MailError('unavailable', 'The mail server does not take it at the moment.', { cause: error });
}
