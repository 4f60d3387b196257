import { engineConformance } from './conformance.ts';
import { dockerSkip, dockerUnderTest } from './docker-under-test.ts';

engineConformance('docker', dockerUnderTest, { skip: dockerSkip() });
