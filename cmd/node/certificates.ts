/** Which certificate the platform's own hosts have: the operator's of --tls-cert, or one of the local authority. */
import {
  CertificateError,
  givenCertificate,
  localCertificate,
  type PlatformCertificate,
} from '../../transports/gateway/tls/platform-certificate.ts';
import { CliError } from '../config/cli-error.ts';

interface CertificateOptions {
  readonly tlsCert?: string;
  readonly tlsKey?: string;
}

/** The certificate that the options name; undefined when they name none. Throws CliError where it cannot be used. */
export function namedCertificate({ tlsCert, tlsKey }: CertificateOptions): PlatformCertificate | undefined {
  if (tlsCert === undefined && tlsKey === undefined) return undefined;
  if (tlsCert === undefined || tlsKey === undefined)
    throw new CliError('--tls-cert and --tls-key go together: give both.');
  try {
    return givenCertificate(tlsCert, tlsKey);
  } catch (error) {
    if (error instanceof CertificateError) throw new CliError(error.message, { cause: error.cause });
    throw error;
  }
}

/** The same, or else the one of the authority in `dataDir`, which is made when it is missing. */
export async function certificateOf(
  options: CertificateOptions,
  dataDir: string,
  domain: string,
): Promise<PlatformCertificate> {
  return namedCertificate(options) ?? localCertificate(dataDir, domain, Date.now());
}
