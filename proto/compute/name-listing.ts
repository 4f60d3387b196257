/** The endpoint that tells a user which readable names are theirs, also those that they gave up. */
import { z } from 'zod';
import { endpoint } from '../endpoint.ts';
import { ofContainers } from './fields.ts';

const ownNameSchema = z.object({
  name: z.string(),
  /** Which container has it; absent: none, it is reserved. */
  container_id: z.string().optional(),
  /** Until when nobody else can have it; absent while a container has it. */
  reserved_until: z.string().optional(),
});
export type OwnNameView = z.input<typeof ownNameSchema>;

export const listAddressNames = endpoint('listAddressNames', 'GET /compute/address-names', {
  ...ofContainers('read'),
  summary: 'The readable names of your containers, and those that you gave up and that are reserved for you',
  reply: z.object({
    address_names: z.array(ownNameSchema),
    /** So many may be reserved before a new one is refused. */
    reserved_limit: z.int(),
  }),
});
