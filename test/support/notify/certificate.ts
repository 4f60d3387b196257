/** Certificates for receivers and mail servers. */
import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { type Cleanup, tempDir } from '../temp.ts';

/** A key and a certificate of its own authority, for one name and 0.0.0.0. Needs openssl. */
export async function certificate(t: Cleanup, name: string) {
  const folder = await tempDir(t);
  const [key, cert] = [join(folder, 'key.pem'), join(folder, 'cert.pem')];
  const subject = ['-subj', `/CN=${name}`, '-addext', `subjectAltName=DNS:${name},IP:0.0.0.0`];
  const made = ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '2'];
  await promisify(execFile)('openssl', [...made, '-keyout', key, '-out', cert, ...subject]);
  return { key: await readFile(key, 'utf8'), cert: await readFile(cert, 'utf8') };
}
