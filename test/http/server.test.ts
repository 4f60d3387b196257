import { ADAPTERS } from '../support/http/adapters.ts';
import { conformance } from '../support/http/conformance.ts';
import { failOnLeaks } from '../support/leaks.ts';

failOnLeaks();

for (const adapter of ADAPTERS) conformance(adapter, false);
