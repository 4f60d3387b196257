/** Certificates and keys as text (RFC 7468). */
import { X509Certificate } from 'node:crypto';

/** A certificate and its key, both PEM. */
export interface Pem {
  readonly cert: string;
  readonly key: string;
}

/** When a certificate (the first of the text) stops being valid, and for which names it is. Throws when it is none. */
export function describeCertificate(pem: string): { notAfter: Date; names: string[] } {
  const { validTo, subjectAltName = '' } = new X509Certificate(pem);
  const names = subjectAltName.split(', ').flatMap((name) => (name.startsWith('DNS:') ? [name.slice(4)] : []));
  return { notAfter: new Date(validTo), names };
}
