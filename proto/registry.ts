/** The token endpoint of the image registry (interface section 4.1, the registry token protocol of CNCF Distribution). */
import { z } from 'zod';
import { endpoint } from './endpoint.ts';

/** Docker and skopeo send the scope once for each repository; each value may hold several, separated by spaces. */
export const registryToken = endpoint({
  name: 'registryToken',
  service: 'auth',
  method: 'GET',
  path: '/v2/token',
  summary: 'A token for the image registry, for whoever HTTP Basic names, or for anybody',
  access: 'none',
  basic: true,
  repeats: ['scope'],
  query: z.object({ service: z.string().min(1).max(256), scope: z.string().max(16_384).default('') }),
  reply: z.object({
    token: z.string(),
    expires_in: z.literal(300),
    issued_at: z.string(),
  }),
  refuses: ['invalid_credentials', 'too_many_attempts'],
  actor: { kind: 'auth/login', key: 'desk' },
});
